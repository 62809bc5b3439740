package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A goroutine of a handler asks or detaches while the handler returns, or after it has. No task is left, neither in the
// store nor in the place that it would need.
func TestNoTaskBeginsWhenTheHandlerHasReturned(t *testing.T) {
	ask := func(ctx context.Context) error {
		_, err := server.Elicit[struct{ Name string }](ctx, "name?")
		return err
	}
	for name, c := range map[string]struct {
		late    func(context.Context) error
		options []server.Option
	}{
		"a parked call asks": {ask, []server.Option{server.Parked()}},
		"a call detaches":    {server.Detach, []server.Option{server.Parked(), server.AsTask(server.TaskOptions{})}},
	} {
		for _, begun := range []bool{true, false} { // when the handler returns
			t.Run(fmt.Sprintf("%s, begun %v", name, begun), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared := newHookedStore(func(_ context.Context, op, key string, _ []byte) error {
						if op == "add" && key == "local/tasks" {
							time.Sleep(time.Second)
						}
						return nil
					})
					s := &server.Server{Store: shared, Logger: slog.New(slog.DiscardHandler)}
					s.Limits.Tasks = 1
					defer s.Shutdown(t.Context())
					late := make(chan error, 1)
					server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) {
						go func() {
							if !begun {
								time.Sleep(10 * time.Second)
							}
							late <- c.late(context.WithoutCancel(ctx))
						}()
						time.Sleep(time.Second / 2)
						return "done", nil
					}, c.options...)
					w := connect(t, s)
					for i := range 3 {
						w.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"job","arguments":{},%s}}`,
							i, withTasks))
						must.CheckContains(t, w.Receive(), `"text":"done"`)
						must.CheckIs(t, must.Receive(t, late, "the goroutine of the handler"), call.ErrCallDone)
						synctest.Wait()
						left := must.Get(shared.List(t.Context(), "local/tasks", "", 10))(t)
						must.CheckThat(t, len(left) <= 0, "left in the store: %v", left)
					}
				})
			})
		}
	}
}

type tenantKey struct{}

// A handler finds the values of the context of its request in a task, too.
func TestTasksHaveTheValuesOfTheirRequest(t *testing.T) {
	value := func(ctx context.Context) (string, error) {
		if c := call.From(ctx); c == nil || c.Method() != mcp.MethodCallTool {
			return "", errors.New("the context has no call")
		}
		return fmt.Sprint("tenant ", ctx.Value(tenantKey{})), nil
	}
	for name, c := range map[string]struct {
		handler func(context.Context, struct{}) (string, error)
		options []server.Option
	}{
		"a task": {func(ctx context.Context, _ struct{}) (string, error) { return value(ctx) },
			[]server.Option{server.AsTask(server.TaskOptions{})}},
		"a detached call": {func(ctx context.Context, _ struct{}) (string, error) {
			if err := server.Detach(ctx); err != nil {
				return "", err
			}
			return value(ctx)
		}, []server.Option{server.Parked(), server.AsTask(server.TaskOptions{})}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server.Server{Logger: slog.New(slog.DiscardHandler), Middleware: []call.Middleware{
				func(next call.Handler) call.Handler {
					return func(ctx context.Context, c *call.Call) (any, error) {
						if c.Method() == mcp.MethodCallTool {
							ctx = context.WithValue(ctx, tenantKey{}, "acme")
						}
						return next(ctx, c)
					}
				},
			}}
			defer s.Shutdown(t.Context())
			server.AddTool(s, mcp.Tool{Name: "job"}, c.handler, c.options...)
			w := connect(t, s)
			w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
			id := member(t, w.Receive(), "taskId")
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id +
				`"]},` + withTasks + `}}`)
			receiveUntil(w, `"text":"tenant acme"`)
		})
	}
	s := &server.Server{Logger: slog.New(slog.DiscardHandler), Middleware: []call.Middleware{
		func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				return next(context.WithValue(ctx, tenantKey{}, "acme"), c)
			}
		},
	}}
	defer s.Shutdown(t.Context())
	server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) { return value(ctx) },
		server.AsTask(server.TaskOptions{}))
	w := connect(t, s)
	w.Handshake("2025-11-25")
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`)
	id := member(t, w.Receive(), "taskId")
	w.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
	receiveUntil(w, `"text":"tenant acme"`)
}
