package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// buildServer returns a server with a tool that runs as a task.
func buildServer() *server.Server {
	s := &server.Server{Name: "builds", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "build", Description: "Build the project"},
		func(ctx context.Context, in struct{}) (string, error) { return "built", nil },
		server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}))
	return s
}

// StartTool returns without waiting for the task that the server creates.
func ExampleClient_StartTool() {
	ctx := context.Background()
	c := connect(buildServer())
	defer c.Close()
	task, err := c.StartTool(ctx, "build", nil)
	if err != nil {
		log.Fatal(err)
	}
	// Do something else, and then:
	result, err := task.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// built
}

// The id of a task is enough to find it again, even in another program.
func ExampleClient_Task() {
	ctx := context.Background()
	s := buildServer()
	c := connect(s)
	started, err := c.StartTool(ctx, "build", nil)
	if err != nil {
		log.Fatal(err)
	}
	c.Close()

	c = connect(s)
	defer c.Close()
	task, err := c.Task(started.ID())
	if err != nil {
		log.Fatal(err)
	}
	result, err := task.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// built
}

// taskFiles keeps a file for each task. Its value is the directory.
type taskFiles string

func (dir taskFiles) file(r client.TaskRecord) string {
	return filepath.Join(string(dir), fmt.Sprintf("%x", r.ID))
}

func (dir taskFiles) SaveTask(ctx context.Context, r client.TaskRecord) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(dir.file(r), raw, 0o600)
}

func (dir taskFiles) DeleteTask(ctx context.Context, r client.TaskRecord) error {
	return os.Remove(dir.file(r))
}

// A TaskStore remembers unfinished tasks for the next run of the program.
func ExampleTaskStore() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tasks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := client.Dialer{Tasks: taskFiles(dir)}
	c, err := d.Dial(ctx, inMemory(buildServer()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	task, err := c.StartTool(ctx, "build", nil)
	if err != nil {
		log.Fatal(err)
	}
	saved, _ := os.ReadDir(dir)
	fmt.Println(len(saved), "task")
	if _, err := task.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	saved, _ = os.ReadDir(dir)
	fmt.Println(len(saved), "tasks")
	// Output:
	// 1 task
	// 0 tasks
}
