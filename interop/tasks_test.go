//go:build integration

package interop

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The official client of the tasks extension calls a tool that runs as a task and asks a question, and listens to the
// task.
func TestTasksOfOurServerWithTheClientOfTheExtension(t *testing.T) {
	s := &server.Server{Name: "tasks", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "job", Description: "Greet as a task"}, func(ctx context.Context, _ struct{}) (string, error) {
		who, err := server.Elicit[struct {
			Name string `json:"name"`
		}](ctx, "Who are you?")
		return "Hello, " + who.Name, err
	}, server.AsTask(server.TaskOptions{TTL: time.Hour, PollInterval: 100 * time.Millisecond}))
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	defer func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // the task of a client that has failed waits for an answer
		_ = s.Shutdown(ctx)
	}()
	type result struct {
		ResultType string
		Content    []struct{ Text string }
	}
	var seen struct {
		Kind             string
		Questions        []string
		Result, Notified result
	}
	run(t, node(t, "tasks-client.mjs", "http", endpoint.URL), &seen)
	if seen.Kind != "task" || !slices.Equal(seen.Questions, []string{"Who are you?"}) {
		t.Errorf("%+v", seen)
	}
	for _, got := range []result{seen.Result, seen.Notified} {
		if got.ResultType != "complete" || len(got.Content) != 1 || got.Content[0].Text != "Hello, Ada" {
			t.Errorf("%+v", got)
		}
	}
}
