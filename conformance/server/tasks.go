package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addTasks adds the tools that run as tasks, and one that does not.
func addTasks(s *server.Server) {
	optional := server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond})
	required := server.AsTask(server.TaskOptions{Support: mcp.TaskRequired, PollInterval: 100 * time.Millisecond})

	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greets, and never runs as a task."},
		func(_ context.Context, in name) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	server.AddTool(s, mcp.Tool{Name: "slow_compute", Description: "Computes for some seconds."},
		func(ctx context.Context, in struct {
			Seconds float64 `json:"seconds" doc:"how long it takes"`
			Label   string  `json:"label,omitempty" doc:"what is computed"`
		}) (string, error) {
			if err := work(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
				return "", err
			}
			return fmt.Sprintf("computed %s in %v s", in.Label, in.Seconds), nil
		}, optional)
	server.AddTool(s, mcp.Tool{Name: "failing_job", Description: "Fails after a second."},
		func(ctx context.Context, _ none) (string, error) {
			if err := work(ctx, time.Second); err != nil {
				return "", err
			}
			return "", errors.New("the job failed, as it always does")
		}, required)
	server.AddTool(s, mcp.Tool{Name: "protocol_error_job", Description: "Ends with an error of the protocol."},
		func(ctx context.Context, _ none) (string, error) {
			if err := work(ctx, 200*time.Millisecond); err != nil {
				return "", err
			}
			return "", jsonrpc.Errorf(jsonrpc.CodeInternalError, "the job ended with an error of the protocol")
		}, optional)
	server.AddTool(s, mcp.Tool{Name: "confirm_delete", Description: "Asks the user before it deletes a file."},
		func(ctx context.Context, in struct {
			Filename string `json:"filename" doc:"the name of the file"`
		}) (string, error) {
			answer, err := server.Elicit[struct {
				Confirm bool `json:"confirm" doc:"delete it?"`
			}](ctx, "Delete "+in.Filename+"?", server.Keyed("confirm"))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("deleted %s: %t", in.Filename, answer.Confirm), nil
		}, optional)
	server.AddTool(s, mcp.Tool{Name: "multi_input", Description: "Asks the user two questions at once."},
		func(ctx context.Context, _ none) (string, error) {
			var first, second name
			err := server.Ask(ctx,
				server.ElicitInto(&first, "What is your name?", server.Keyed("first")),
				server.ElicitInto(&second, "Who comes with you?", server.Keyed("second")))
			if err != nil {
				return "", err
			}
			return first.Name + " and " + second.Name, nil
		}, optional)
	server.AddTool(s, mcp.Tool{Name: "test_tool_with_task", Description: "Asks for a name, and then becomes a task."},
		func(ctx context.Context, _ none) (string, error) {
			who, err := server.Elicit[name](ctx, "What is your name?", server.Keyed("user_name"))
			if err != nil {
				return "", err
			}
			if err := server.Detach(ctx); err != nil {
				return "", err
			}
			if err := work(ctx, 200*time.Millisecond); err != nil {
				return "", err
			}
			return "Hello, " + who.Name + "!", nil
		}, server.Parked(),
		server.AsTask(server.TaskOptions{Support: mcp.TaskRequired, PollInterval: 100 * time.Millisecond}))
}

// work takes some time.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
