//go:build integration

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// TestMain runs the program in the processes that the test starts.
func TestMain(m *testing.M) {
	if os.Getenv("KEY_FILE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// startProcess starts a server that listens on a free address, and returns the address.
func startProcess(t *testing.T, command func(port string) *exec.Cmd) (addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := must.Get(freeaddr.Start(ctx, func(addr string) *exec.Cmd {
		_, port, _ := net.SplitHostPort(addr)
		return command(port)
	}))(t)
	t.Cleanup(p.Kill)
	return p.Addr
}

// Another replica answers with the result of a task that the first replica ran.
func TestReplicasShareTasks(t *testing.T) {
	dir := t.TempDir()
	program := must.Get(filepath.Abs("../../../../.tools/servers/redis-server"))(t)
	redis := startProcess(t, func(port string) *exec.Cmd {
		return exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "")
	})
	keys := filepath.Join(dir, "keys")
	must.Do(t, os.WriteFile(keys, []byte("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), 0o600))
	var replicas [2]*client.Client
	for i := range replicas {
		addr := startProcess(t, func(port string) *exec.Cmd {
			cmd := exec.Command(os.Args[0], "-http", "127.0.0.1:"+port)
			cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+redis, "KEY_FILE="+keys)
			return cmd
		})
		replicas[i] = must.Get(client.Dial(t.Context(), client.URL("http://"+addr+"/mcp")))(t)
		defer replicas[i].Close()
	}
	started := must.Get(replicas[0].StartTool(t.Context(), "bake", order{Kind: "plum"}))(t)
	found := must.Get(replicas[1].Task(started.ID()))(t)
	result := must.Get(found.Wait(t.Context()))(t)
	if text := result.Content[0].(*mcp.TextContent).Text; !strings.HasPrefix(text, "a plum cake, receipt ") {
		t.Errorf("result %q", text)
	}
}
