package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// startTask calls a tool of s without waiting for its task, and then waits for it.
func startTask(s *server.Server, tool string) {
	ctx := context.Background()
	d := client.Dialer{Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println(form.Message)
		return mcp.AcceptElicit(map[string]any{"confirm": true})
	}}
	near, far := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(ctx, far) }()
	c, err := d.Dial(ctx, client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		_ = c.Close()
		<-served
		_ = s.Shutdown(ctx)
	}()
	task, err := c.StartTool(ctx, tool, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the call has returned, and is a task:", task.ID() != "")
	result, err := task.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
}

type confirmForm struct {
	Confirm bool `json:"confirm"`
}

// The handler of a task is the same as that of a call. It may ask questions while it runs.
func ExampleAsTask() {
	s := &server.Server{Name: "archive", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "tidy"}, func(ctx context.Context, _ struct{}) (string, error) {
		if err := server.Progress(ctx, 1, 2, "looking for old files"); err != nil { // the status message
			return "", err
		}
		answer, err := server.Elicit[confirmForm](ctx, "Delete 12 old files?")
		if err != nil || !answer.Confirm {
			return "Nothing was deleted.", err
		}
		return "12 files were deleted.", nil
	}, server.AsTask(server.TaskOptions{TTL: time.Hour, Timeout: time.Minute, PollInterval: 100 * time.Millisecond}))

	startTask(s, "tidy")
	// Output:
	// the call has returned, and is a task: true
	// Delete 12 old files?
	// 12 files were deleted.
}

// A handler that knows how much work there is can decide whether the call becomes a task. Questions
// before Detach are part of the call.
func ExampleDetach() {
	s := &server.Server{Name: "archive", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "tidy"}, func(ctx context.Context, _ struct{}) (string, error) {
		answer, err := server.Elicit[confirmForm](ctx, "Delete 12 old files?")
		if err != nil || !answer.Confirm {
			return "Nothing was deleted.", err
		}
		// The client receives its response, or waits if it does not support tasks.
		err = server.Detach(ctx)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return "", err
		}
		if err := server.Progress(ctx, 1, 12, "deleting"); err != nil {
			return "", err
		}
		return "12 files were deleted.", nil
	}, server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}), server.Parked())

	startTask(s, "tidy")
	// Output:
	// Delete 12 old files?
	// the call has returned, and is a task: true
	// 12 files were deleted.
}
