package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// before returns middleware that calls change before the request.
func before(change func(*call.Call) error) call.Middleware {
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if err := change(c); err != nil {
				return nil, err
			}
			return next(ctx, c)
		}
	}
}

// named returns middleware that replaces the argument name of the tool say by value followed by the former value.
func named(value string) call.Middleware {
	return before(func(c *call.Call) error {
		if c.Method() != mcp.MethodCallTool || c.Name() != "say" {
			return nil
		}
		params, err := call.ParamsOf[mcp.CallToolParams](c)
		if err != nil {
			return err
		}
		var arguments map[string]string
		if err := json.Unmarshal(params.Arguments, &arguments); err != nil {
			return err
		}
		return errors.Join(c.SetParams(map[string]any{"name": "say", "arguments": map[string]string{
			"name": value + arguments["name"]}}), c.SetMeta("com.example/by", value))
	})
}

// Middleware of both sides replaces params and _meta, and the handler sees the result of all.
func TestMiddlewareReplacesParams(t *testing.T) {
	newServer := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "say"}, func(ctx context.Context, in struct {
			Name string `json:"name" mcp-header:"Name"`
		}) (string, error) {
			return in.Name + " " + string(call.From(ctx).Meta("com.example/by")) +
				string(call.From(ctx).Meta("com.example/own")), nil
		})
		s.Middleware = []call.Middleware{named("c"), named("d")}
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		got := must.Get(client.CallTool[string](t.Context(), c, "say", map[string]string{"name": "x"},
			client.WithMeta(mcp.Meta{"com.example/own": json.RawMessage("1")})))(t)
		must.CheckEqual(t, got, `dcbax "d"1`)
	}, func(d *client.Dialer) { d.Middleware = []call.Middleware{named("a"), named("b")} })
}

// A server looks for the tool that middleware names.
func TestMiddlewareChangesTheTool(t *testing.T) {
	newServer := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "new"}, func(context.Context, struct{}) (string, error) {
			return "new", nil
		})
		s.Middleware = []call.Middleware{before(func(c *call.Call) error {
			if c.Name() != "old" {
				return nil
			}
			return c.SetParams(map[string]string{"name": "new"})
		})}
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "old", nil))(t), "new")
	})
}

// rewriting returns middleware that appends mark to the message of progress, and drops the one whose message is drop.
func rewriting(mark, drop string) call.Middleware {
	return before(func(c *call.Call) error {
		c.OnNotification(func(n *call.Notification) bool {
			var params map[string]any
			if n.Method != mcp.NotificationProgress || json.Unmarshal(n.Params, &params) != nil {
				return true
			}
			text, _ := params["message"].(string)
			if text == drop {
				return false
			}
			params["message"] = text + mark
			n.Params, _ = json.Marshal(params)
			return true
		})
		return nil
	})
}

// Middleware of both sides sees the notifications of its call, the innermost first, and can change and drop them.
func TestMiddlewareChangesNotifications(t *testing.T) {
	newServer := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "work"}, func(ctx context.Context, _ struct{}) (string, error) {
			for i, text := range []string{"one", "two", "three"} {
				if err := server.Progress(ctx, float64(i+1), 3, text); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		s.Middleware = []call.Middleware{rewriting("2", ""), rewriting("1", "two")}
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		var mu sync.Mutex
		var texts []string
		must.Get(c.CallTool(t.Context(), "work", nil, client.WithProgress(func(_, _ float64, text string) {
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, text)
		})))(t)
		mu.Lock()
		defer mu.Unlock()
		got := strings.Join(texts, " ")
		if c.Revision() == mcp.V20241105 { // its progress has no message
			must.CheckEqual(t, got, "1234 1234 1234")
			return
		}
		must.CheckEqual(t, got, "one1234", "three is dropped by the outer middleware of the client")
	}, func(d *client.Dialer) {
		d.Middleware = []call.Middleware{rewriting("4", "three123"), rewriting("3", "")}
	})
}

// A panic of a function of OnNotification ends its request only, on both sides.
func TestPanicInOnNotificationEndsOnlyTheRequest(t *testing.T) {
	panicking := before(func(c *call.Call) error {
		if c.Method() == mcp.MethodCallTool {
			c.OnNotification(func(*call.Notification) bool { panic("filter") })
		}
		return nil
	})
	newServer := func(middleware ...call.Middleware) func() *server.Server {
		return func() *server.Server {
			s := newServer()
			s.Middleware = middleware
			server.AddTool(s, mcp.Tool{Name: "work"}, func(ctx context.Context, _ struct{}) (string, error) {
				return "done", server.Progress(ctx, 1, 2, "one")
			})
			return s
		}
	}
	check := func(t *testing.T, c *client.Client, want string) {
		t.Helper()
		result, err := c.CallTool(t.Context(), "work", nil, client.WithProgress(func(float64, float64, string) {}))
		must.CheckThat(t, err != nil || result.IsError, "the result is %v", result)
		if err != nil {
			must.CheckContains(t, err.Error(), want)
		}
		must.Check(t, c.Ping(t.Context()))
	}
	mcptest.Everywhere(t, newServer(), func(t *testing.T, c *client.Client) {
		check(t, c, "OnNotification panicked: filter")
	}, func(d *client.Dialer) { d.Middleware = []call.Middleware{panicking} })
	mcptest.Everywhere(t, newServer(panicking), func(t *testing.T, c *client.Client) { check(t, c, "internal error") })
}

// The changes that a subscription of 2026-07-28 reports pass through the middleware of its request on both sides, and
// so do the notifications of extensions, on the way in, too.
func TestMiddlewareSeesNotificationsOfExtensions(t *testing.T) {
	atServer, atClient := newInbox(), newInbox()
	mark := func(text string) call.Middleware {
		return before(func(c *call.Call) error {
			change := func(raw json.RawMessage) (any, error) {
				var j job
				err := json.Unmarshal(raw, &j)
				return job{j.Name + text}, err
			}
			if c.Method() == "notifications/jobs/forget" {
				changed, err := change(c.Params().Raw())
				return errors.Join(err, c.SetParams(changed))
			}
			c.OnNotification(func(n *call.Notification) bool {
				if n.Method == "notifications/jobs/running" {
					changed, _ := change(n.Params)
					n.Params, _ = json.Marshal(changed)
				}
				return true
			})
			return nil
		})
	}
	newServer := func() *server.Server {
		s := newExtended(atServer)()
		s.Middleware = []call.Middleware{mark("-s")}
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		must.Do(t, c.NotifyExtension(t.Context(), "notifications/jobs/forget", job{"a"}))
		atServer.await(t, "a-c-s")
		atServer.names = nil
		must.Get(c.CallExtension(t.Context(), "jobs/run", job{"b"}))(t)
		want := "b-s"
		if strings.HasSuffix(t.Name(), "/http") { // elsewhere the notification does not name its request
			want += "-c"
		}
		atClient.await(t, want)
		atClient.names = nil
	}, func(d *client.Dialer) {
		d.Middleware = []call.Middleware{mark("-c")}
		d.Extensions = []client.Extension{{ID: jobs, Notifications: map[string]func(context.Context, json.RawMessage){
			"notifications/jobs/running": func(_ context.Context, params json.RawMessage) { atClient.receive(params) },
		}}}
	})
}

type name struct {
	Name string `json:"name"`
}

// What the protocol itself keeps in params survives their replacement: the answers of a call that asks, and whether a
// call is a task.
func TestReplacedParamsBelongToTheSameRequest(t *testing.T) {
	asking := func(options ...server.Option) func() *server.Server {
		return func() *server.Server {
			s := newServer()
			s.Middleware = []call.Middleware{named("c"), named("d")}
			server.AddTool(s, mcp.Tool{Name: "say"}, func(ctx context.Context, in name) (string, error) {
				first, err := server.Elicit[name](ctx, "First name of "+in.Name+"?")
				if err != nil {
					return "", err
				}
				last, err := server.Elicit[name](ctx, "Last name of "+in.Name+"?")
				return first.Name + " " + last.Name, err
			}, options...)
			return s
		}
	}
	const want = "First name of dcbax? Last name of dcbax?"
	configure := func(d *client.Dialer) {
		d.Middleware = []call.Middleware{named("a"), named("b")}
		d.Elicit = func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(name{p.Message})
		}
	}
	mcptest.Everywhere(t, asking(), func(t *testing.T, c *client.Client) {
		if c.Revision() >= mcp.V20250618 { // earlier ones have no questions
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "say", name{"x"}))(t), want)
		}
	}, configure)
	mcptest.Everywhere(t, asking(server.AsTask(server.TaskOptions{})), func(t *testing.T, c *client.Client) {
		if c.Revision() < mcp.V20251125 { // earlier ones have no tasks
			return
		}
		task := must.Get(c.StartTool(t.Context(), "say", name{"x"}))(t)
		must.CheckThat(t, task.ID() != "", "the call is no task")
		result := must.Get(task.Wait(t.Context()))(t)
		must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, want)
	}, configure)
}
