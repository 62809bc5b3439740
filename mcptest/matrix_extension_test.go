package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

const jobs = "com.example/jobs"

type job struct {
	Name string `json:"name"`
}

// inbox records the notifications of the extension that one side receives.
type inbox struct {
	mu      sync.Mutex
	names   []string
	arrived chan struct{}
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 16)} }

func (b *inbox) receive(params json.RawMessage) {
	var j job
	_ = json.Unmarshal(params, &j)
	b.mu.Lock()
	b.names = append(b.names, j.Name)
	b.mu.Unlock()
	b.arrived <- struct{}{}
}

// await waits for a notification and checks the names of all notifications so far.
func (b *inbox) await(t *testing.T, want string) {
	t.Helper()
	must.Receive(t, b.arrived, want)
	b.mu.Lock()
	defer b.mu.Unlock()
	must.CheckEqual(t, strings.Join(b.names, " "), want)
}

// newExtended returns a server with an extension, whose requests send notifications.
func newExtended(atServer *inbox) func() *server.Server {
	return func() *server.Server {
		s := newServer()
		server.AddExtension(s, server.Extension{
			ID:       jobs,
			Settings: map[string]any{"most": 3},
			Requests: map[string]func(context.Context, json.RawMessage) (any, error){
				"jobs/run": func(ctx context.Context, params json.RawMessage) (any, error) {
					var j job
					if err := json.Unmarshal(params, &j); err != nil {
						return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
					}
					settings, _ := call.From(ctx).Extension(jobs)
					if err := server.Notify(ctx, "notifications/jobs/running", params); err != nil {
						return nil, err
					}
					return map[string]any{"ran": j.Name, "declared": settings}, nil
				},
				"jobs/none":  func(context.Context, json.RawMessage) (any, error) { return nil, nil },
				"jobs/panic": func(context.Context, json.RawMessage) (any, error) { panic("secret") },
			},
			Notifications: map[string]func(context.Context, json.RawMessage){
				"notifications/jobs/forget": func(_ context.Context, params json.RawMessage) {
					atServer.receive(params)
				},
			},
		})
		return s
	}
}

func TestExtensionWorksInEveryRevision(t *testing.T) {
	var atServer, atClient *inbox
	mcptest.Everywhere(t, func() *server.Server {
		atServer = newInbox()
		return newExtended(atServer)()
	}, func(t *testing.T, c *client.Client) {
		settings, ok := c.Server().Extension(jobs)
		must.CheckThat(t, ok && string(settings) == `{"most":3}`, "the server declares %s, %v", settings, ok)
		out, err := c.CallExtension(t.Context(), "jobs/run", job{"a"})
		ran, _ := jsonrpc.Get(out, "ran")
		declared, _ := jsonrpc.Get(out, "declared")
		priority, _ := jsonrpc.Get(declared, "Priority")
		must.CheckThat(t, err == nil && string(ran) == `"a"` && string(priority) == "7", "%s, %v", out, err)
		atClient.await(t, "a")
		raw := must.Get(c.CallExtension(t.Context(), "jobs/none", nil))(t)
		must.CheckEqual(t, raw[0], '{', raw)
		var reported *jsonrpc.Error
		if _, err := c.CallExtension(t.Context(), "jobs/panic", nil); !errors.As(err, &reported) ||
			reported.Code != jsonrpc.CodeInternalError || strings.Contains(err.Error(), "secret") {
			t.Errorf("a request that panics: %v", err)
		}
		if _, err := c.CallExtension(t.Context(), "jobs/other", nil); !errors.As(err, &reported) ||
			reported.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("an unknown method: %v", err)
		}
		if _, err := c.CallExtension(t.Context(), "notifications/jobs/forget", nil); !errors.As(err, &reported) ||
			reported.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("a notification as a request: %v", err)
		}
		must.Check(t, c.NotifyExtension(t.Context(), "notifications/jobs/forget", job{"b"}))
		atServer.await(t, "b")
		for _, method := range []string{mcp.MethodCallTool, mcp.MethodListTools} {
			_, err := c.CallExtension(t.Context(), method, nil)
			must.CheckThat(t, err != nil, "CallExtension accepts %s", method)
		}
		if err := c.NotifyExtension(t.Context(), mcp.NotificationCancelled, nil); err == nil {
			t.Error("NotifyExtension accepts a notification of the protocol")
		}
	}, func(d *client.Dialer) {
		atClient = newInbox()
		d.Extensions = []client.Extension{{
			ID: jobs, Settings: map[string]int{"Priority": 7},
			Notifications: map[string]func(context.Context,
				json.RawMessage){"notifications/jobs/running": func(_ context.Context, params json.RawMessage) {
				atClient.receive(params)
			}},
		}}
	})
}

// Rule J13: a client that has not declared an extension cannot use it. The error is that of the revision.
func TestExtensionRequiresDeclaration(t *testing.T) {
	var atServer *inbox
	mcptest.Everywhere(t, func() *server.Server {
		atServer = newInbox()
		return newExtended(atServer)()
	}, func(t *testing.T, c *client.Client) {
		var reported *jsonrpc.Error
		_, err := c.CallExtension(t.Context(), "jobs/run", job{"a"})
		must.That(t, errors.As(err, &reported), "error %v", err)
		if !c.Revision().Modern() {
			must.CheckEqual(t, reported.Code, jsonrpc.CodeMethodNotFound, err)
		} else {
			var data mcp.MissingCapabilityData
			err := json.Unmarshal(reported.Data, &data)
			must.CheckThat(t, err == nil && reported.Code == mcp.CodeMissingCapability, "%v, %v", reported, err)
			if _, ok := data.RequiredCapabilities.Extensions[jobs]; !ok {
				t.Errorf("required: %s", reported.Data)
			}
		}
		must.Check(t, c.NotifyExtension(t.Context(), "notifications/jobs/forget", job{"b"}))
		must.Check(t, c.Ping(t.Context())) // the response arrives after the notification is handled
		must.CheckThat(t, len(atServer.arrived) == 0, "the extension receives the notification")
	})
}

// newTasking returns a server that runs every tool call as a task if the client supports tasks.
func newTasking() *server.Server {
	s := newServer()
	s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if _, ok := c.Extension(mcp.ExtensionTasks); ok && c.Method() == mcp.MethodCallTool {
				return &mcp.CreateTaskResult{
					ResultBase: mcp.ResultBase{ResultType: mcp.ResultTypeTask},
					Task: mcp.Task{TaskID: "1", Status: mcp.TaskWorking, CreatedAt: "2026-07-28T00:00:00Z",
						LastUpdatedAt: "2026-07-28T00:00:00Z"},
				}, nil
			}
			return next(ctx, c)
		}
	})
	server.AddExtension(s, server.Extension{ID: mcp.ExtensionTasks,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			mcp.MethodGetTask: func(_ context.Context, params json.RawMessage) (any, error) {
				var p mcp.TaskParams
				if err := json.Unmarshal(params, &p); err != nil || p.TaskID != "1" {
					return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no such task")
				}
				return &mcp.GetTaskResult{DetailedTask: mcp.DetailedTask{
					Task: mcp.Task{TaskID: "1", Status: mcp.TaskCompleted, CreatedAt: "2026-07-28T00:00:00Z",
						LastUpdatedAt: "2026-07-28T00:00:00Z"},
					Result: json.RawMessage(`{"content":[{"type":"text","text":"late"}]}`),
				}}, nil
			},
		}})
	return s
}

// The tasks extension can be implemented outside of this module: its methods, its result
// type, and a client that waits for the result of a task.
func TestTasksExtensionCanBeImplementedByProgram(t *testing.T) {
	for _, tr := range mcptest.Transports() {
		if !tr.Supports(mcp.V20260728) {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) {
			var c *client.Client
			await := func(next call.Handler) call.Handler {
				return func(ctx context.Context, k *call.Call) (any, error) {
					result, err := next(ctx, k)
					created, ok := result.(*mcp.CreateTaskResult)
					if !ok {
						return result, err
					}
					raw, err := c.CallExtension(ctx, mcp.MethodGetTask, mcp.TaskParams{TaskID: created.TaskID})
					if err != nil {
						return nil, err
					}
					var task mcp.GetTaskResult
					return task.Result, schema.Decode(raw, &task)
				}
			}
			c = tr.Dial(t, newTasking(), func(d *client.Dialer) {
				d.Extensions = []client.Extension{{ID: mcp.ExtensionTasks, ResultTypes: []string{mcp.ResultTypeTask}}}
				d.Middleware = []call.Middleware{await}
			})
			must.CheckEqual(t,
				must.Get(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "x"}))(t), "late")
			plain := tr.Dial(t, newTasking(), func(d *client.Dialer) {
				d.Extensions = []client.Extension{{ID: mcp.ExtensionTasks, ResultTypes: []string{mcp.ResultTypeTask}}}
			})
			must.CheckIs(t, must.Err(plain.CallTool(t.Context(), "echo", map[string]string{"text": "x"})),
				call.ErrInvalidResponse, "CallTool with a task as the result")
		})
	}
}

// A handler can ask before and after its call becomes a task, and runs once.
func TestParkedCallBecomesATask(t *testing.T) {
	type form struct{ Text string }
	for _, before := range []int{0, 1, 2} {
		for _, tasks := range []bool{true, false} {
			var runs atomic.Int32
			s := &server.Server{Name: "s"}
			server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (text string, err error) {
				runs.Add(1)
				for i := range before + 1 {
					if i == before {
						if err := server.Detach(ctx); err != nil && tasks {
							return "", err
						}
					}
					answer, err := server.Elicit[form](ctx, fmt.Sprint("question ", i))
					if err != nil {
						return "", err
					}
					text += answer.Text + ";"
				}
				return text, nil
			}, server.Parked(), server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}))
			c := mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
				d.NoTasks = !tasks
				d.Elicit = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return mcp.AcceptElicit(form{request.Message})
				}
			})
			task := must.Get(c.StartTool(t.Context(), "job", nil))(t)
			want := ""
			for i := range before + 1 {
				want += fmt.Sprint("question ", i, ";")
			}
			result, err := task.Wait(t.Context())
			if err != nil || result.Content[0].(*mcp.TextContent).Text != want || runs.Load() != 1 ||
				(task.ID() != "") != tasks {
				t.Errorf("%d questions before, tasks %t: %+v, %v after %d runs, task %q", before, tasks, result, err,
					runs.Load(), task.ID())
			}
		}
	}
}

// An extension says what it requires of the server: a part of the protocol, or another extension, in any order.
func TestExtensionsRequireWhatTheServerHas(t *testing.T) {
	const search = "com.example/search"
	needs := func(have mcp.ServerCapabilities) error {
		if _, ok := have.Extensions[jobs]; !ok || have.Tools == nil {
			return errors.New("tools and " + jobs)
		}
		return nil
	}
	find := server.ExtensionRequest(func(_ context.Context, in job) (job, error) { return job{"found " + in.Name}, nil })
	newServer := func() *server.Server {
		s := &server.Server{Name: "s"}
		server.AddExtension(s, server.Extension{ID: search, AnyClient: true, Requires: needs,
			Requests: map[string]func(context.Context, json.RawMessage) (any, error){"search/find": find}})
		return s
	}
	for missing, add := range map[string]func(*server.Server){
		"nothing of it": func(*server.Server) {},
		"the extension": func(s *server.Server) { server.AddTool(s, mcp.Tool{Name: "t"}, nothing) },
		"the tools":     func(s *server.Server) { server.AddExtension(s, server.Extension{ID: jobs}) },
	} {
		s := newServer()
		add(s)
		must.CheckFails(t, s.Check(), `extension "com.example/search" lacks what it requires: tools and com.example/jobs`,
			missing)
	}
	complete := func() *server.Server {
		s := newServer()
		server.AddExtension(s, server.Extension{ID: jobs})
		server.AddTool(s, mcp.Tool{Name: "t"}, nothing)
		return s
	}
	mcptest.Everywhere(t, complete, func(t *testing.T, c *client.Client) {
		got := must.Get(client.CallExtension[job](t.Context(), c, "search/find", job{"x"}))(t)
		must.CheckEqual(t, got.Name, "found x")
		err := must.Err(client.CallExtension[job](t.Context(), c, "search/find", map[string]int{"name": 1}))
		must.CheckFails(t, err, "cannot decode the params")
		must.CheckFails(t, must.Err(client.CallExtension[int](t.Context(), c, "search/find", job{"x"})),
			"cannot decode the result as int")
	})
	s := complete()
	c := mcptest.Dial(t, s)
	s.RemoveExtension(jobs)
	err := must.Err(client.CallExtension[job](t.Context(), c, "search/find", job{"x"}))
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	must.CheckThat(t, ok && reported.Code == jsonrpc.CodeInternalError, "got %v, want an internal error", err)
}

func nothing(context.Context, struct{}) (string, error) { return "", nil }

// An extension says what it requires of the client.
func TestExtensionsRequireWhatTheClientDeclares(t *testing.T) {
	d := client.Dialer{Extensions: []client.Extension{{ID: jobs, Requires: func(have mcp.ClientCapabilities) error {
		if have.Roots == nil {
			return errors.New("roots")
		}
		return nil
	}}}}
	target := client.Command("must-not-start")
	must.CheckFails(t, must.Err(d.Dial(t.Context(), target)), `"com.example/jobs" lacks what it requires: roots`)
	d.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
	must.CheckFails(t, must.Err(d.Dial(t.Context(), target)), "must-not-start")
}
