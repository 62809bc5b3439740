package mcptest_test

import (
	"context"
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
	"github.com/parley-mcp/parley/server"
)

// taskServer returns a server whose tools run as tasks. The channel receives the cause of the end of
// the context of the tool "wait".
func taskServer() (*server.Server, <-chan error) {
	s := newServer()
	o := server.TaskOptions{PollInterval: time.Millisecond}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, _ struct{}) (weather, error) {
		form, err := server.Elicit[struct {
			City string `json:"city"`
		}](ctx, "which city?")
		return weather{City: form.City, Degrees: 3}, err
	}, server.AsTask(o))
	required := o
	required.Support = mcp.TaskRequired
	server.AddTool(s, mcp.Tool{Name: "build"}, func(context.Context, struct{}) (string, error) {
		return "built", nil
	}, server.AsTask(required))
	server.AddTool(s, mcp.Tool{Name: "break"}, func(context.Context, struct{}) (string, error) {
		return "", errors.New("the disk is full")
	}, server.AsTask(o))
	server.AddTool(s, mcp.Tool{Name: "decline"}, func(context.Context, struct{}) (string, error) {
		return "", jsonrpc.Errorf(-32099, "not today")
	}, server.AsTask(o))
	ended := make(chan error, 1)
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return "", ctx.Err()
	}, server.AsTask(required))
	return s, ended
}

// withTasks runs f in each revision that has tasks, on each of its transports. Each client is of
// the same server and validates its messages.
func withTasks(t *testing.T, f func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client,
	ended <-chan error)) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for _, tr := range mcptest.Transports() {
			if !tr.Supports(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				s, ended := taskServer()
				t.Cleanup(func() { // ends the tasks that a test has left
					ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
					defer cancel()
					_ = s.Shutdown(ctx)
				})
				f(t, func(configure ...func(*client.Dialer)) *client.Client {
					tp := &tap{t: t, revision: r, transport: tr.Name, methods: make(map[jsonrpc.ID]string),
						seen: make(map[string]int)}
					return tr.Dial(t, s, append([]func(*client.Dialer){mcptest.WithRevision(r),
						func(d *client.Dialer) { d.Trace = tp.message }}, configure...)...)
				}, ended)
			})
		}
	}
}

// taking adds a function that fills in forms, and counts the forms.
func taking(city string, asked *atomic.Int32) func(*client.Dialer) {
	return func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked.Add(1)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"city":"` + city + `"}`)}, nil
		}
	}
}

func TestCallToolWaitsForTasks(t *testing.T) {
	withTasks(t, func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client, _ <-chan error) {
		var asked atomic.Int32
		c := dial(taking("Oslo", &asked))
		out, err := client.CallTool[weather](t.Context(), c, "greet", nil)
		must.CheckThat(t, err == nil && out.City == "Oslo" && asked.Load() == 1,
			"%+v, %v, asked %d times", out, err, asked.Load())
		for range 2 { // the second time the client knows that the tool requires a task
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "build", nil))(t), "built")
		}
		var failed *client.ToolError
		if _, err := client.CallTool[string](t.Context(), c, "break", nil); !errors.As(err, &failed) {
			t.Errorf("a tool that fails: %v", err)
		}
		var reported *jsonrpc.Error
		if _, err := c.CallTool(t.Context(), "decline", nil); !errors.As(err, &reported) || reported.Code != -32099 {
			t.Errorf("a tool that reports an error of the protocol: %v", err)
		}
	})
}

func TestTaskIsResumedByAnotherClient(t *testing.T) {
	withTasks(t, func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client, _ <-chan error) {
		var asked atomic.Int32
		first := dial(taking("Oslo", &asked))
		started, err := first.StartTool(t.Context(), "greet", nil)
		must.That(t, err == nil && started.ID() != "", "%+v, %v", started, err)
		must.Do(t, first.Close())
		c := dial(taking("Rome", &asked))
		task := must.Get(c.Task(started.ID()))(t)
		for range 2 { // the outcome is kept
			result := must.Get(task.Wait(t.Context()))(t)
			must.Equal(t, string(result.StructuredContent), `{"city":"Rome","degrees":3}`, result)
		}
		state, err := task.Get(t.Context())
		must.CheckThat(t, err == nil && state.Status == mcp.TaskCompleted && asked.Load() == 1,
			"%+v, %v, asked %d times", state, err, asked.Load())
		must.Check(t, task.Cancel(t.Context()), "cancelling a task that has ended")
		unknown := must.Get(c.Task("unknown"))(t)
		var lost *client.TaskError
		if _, err := unknown.Wait(t.Context()); !errors.Is(err, client.ErrTaskNotFound) || !errors.As(err, &lost) ||
			lost.ID != "unknown" {
			t.Errorf("an unknown task: %v", err)
		}
		must.CheckIs(t, unknown.Cancel(t.Context()), client.ErrTaskNotFound, "cancelling an unknown task")
	})
}

func TestEndOfWaitDoesNotCancelTask(t *testing.T) {
	withTasks(t, func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client, ended <-chan error) {
		c := dial()
		task := must.Get(c.StartTool(t.Context(), "wait", nil))(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must.CheckIs(t, must.Err(task.Wait(ctx)), context.Canceled) // leaves the task alone
		state := must.Get(task.Get(t.Context()))(t)
		must.Equal(t, state.Status, mcp.TaskWorking, state)
		must.Do(t, task.Cancel(t.Context()))
		must.CheckIs(t, must.Err(task.Wait(t.Context())), client.ErrTaskCancelled, "waiting for a cancelled task")
		err := <-ended
		must.CheckThat(t, err != nil, "the handler's context has no cause")
	})
}

// The middleware of a client receives typed results of the requests about tasks.
func TestEndOfContextCancelsTaskOfCall(t *testing.T) {
	withTasks(t, func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client, ended <-chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		results := make(map[string]string)
		c := dial(func(d *client.Dialer) {
			d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, k *call.Call) (any, error) {
					result, err := next(ctx, k)
					mu.Lock()
					defer mu.Unlock()
					results[k.Method()] = fmt.Sprintf("%T", result)
					if k.Method() == mcp.MethodGetTask {
						cancel()
					}
					return result, err
				}
			}}
		})
		if !c.Revision().Modern() {
			for range c.Tools(t.Context()) { // so that the client knows that the tool requires a task
			}
		}
		var unknown *client.TaskError
		if _, err := c.CallTool(ctx, "wait", nil); !errors.Is(err, context.Canceled) || !errors.As(err, &unknown) {
			t.Errorf("%v", err)
		}
		err := <-ended
		must.CheckThat(t, err != nil, "the handler's context has no cause")
		must.Check(t, c.Close()) // after tasks/cancel
		want := map[string]string{"tools/call": "*mcp.CreateTaskResult", "tasks/get": "*mcp.GetTaskResult",
			"tasks/cancel": "*mcp.EmptyResult"}
		if !c.Revision().Modern() {
			want = map[string]string{"tools/call": "*mcp.LegacyCreateTaskResult",
				"tasks/get": "*mcp.LegacyGetTaskResult", "tasks/cancel": "*mcp.LegacyGetTaskResult"}
		}
		for method, kind := range want {
			must.CheckEqual(t, results[method], kind, method, "the middleware received")
		}
	})
}

// A program can answer the input requests of a task itself.
func TestProgramAnswersTask(t *testing.T) {
	withTasks(t, func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client, _ <-chan error) {
		var asked atomic.Int32
		c := dial(taking("Oslo", &asked))
		task, err := c.StartTool(t.Context(), "greet", nil)
		must.Do(t, err)
		if !c.Revision().Modern() {
			must.CheckIs(t, task.Answer(t.Context(), mcp.InputResponses{}), errors.ErrUnsupported)
			must.Check(t, task.Cancel(t.Context()))
			return
		}
		var state *mcp.DetailedTask
		for state == nil || state.Status == mcp.TaskWorking {
			state, err = task.Get(t.Context())
			must.Do(t, err)
		}
		responses := make(mcp.InputResponses)
		for key := range state.InputRequests {
			responses[key] = []byte(`{"action":"accept","content":{"city":"Paris"}}`)
		}
		must.Do(t, task.Answer(t.Context(), responses))
		result, err := task.Wait(t.Context())
		must.CheckThat(t, err == nil && string(result.StructuredContent) == `{"city":"Paris","degrees":3}` &&
			asked.Load() == 0, "%+v, %v, asked %d times", result, err, asked.Load())
	})
}

// A server reports changes of tasks, so a client need not wait until its next poll.
func TestCallToolLearnsOfChangesOfItsTask(t *testing.T) {
	for r, method := range map[mcp.Revision]string{mcp.V20251125: mcp.NotificationTaskStatus,
		mcp.V20260728: mcp.NotificationTasks} {
		for _, tr := range mcptest.Transports() {
			if !tr.Supports(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				s := newServer()
				var once sync.Once
				release := make(chan struct{})
				server.AddTool(s, mcp.Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
					if err := server.Progress(ctx, 0, 0, "working hard"); err != nil { // changes the status message
						return "", err
					}
					select {
					case <-release:
					case <-ctx.Done():
					}
					return "done", ctx.Err()
				}, server.AsTask(server.TaskOptions{Support: mcp.TaskRequired, PollInterval: time.Hour}))
				tp := &tap{t: t, revision: r, transport: tr.Name, methods: make(map[jsonrpc.ID]string),
					seen: make(map[string]int)}
				c := tr.Dial(t, s, mcptest.WithRevision(r), func(d *client.Dialer) {
					d.Trace = func(sent bool, message []byte) {
						tp.message(sent, message)
						if m, err := jsonrpc.Parse(message, jsonrpc.Limits{}); err == nil && m.Method == method {
							once.Do(func() { close(release) }) // the first one, about the task that works
						}
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				must.CheckEqual(t, must.Get(client.CallTool[string](ctx, c, "slow", nil))(t), "done")
			})
		}
	}
}

// StartTool returns the result if the server does not run the tool as a task, in every revision.
func TestStartToolWithoutTask(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		task := must.Get(c.StartTool(t.Context(), "echo", map[string]string{"text": "hello"}))(t)
		must.Equal(t, task.ID(), "", task)
		result := must.Get(task.Wait(t.Context()))(t)
		must.CheckEqual(t, len(result.Content), 1, result)
		state := must.Get(task.Get(t.Context()))(t)
		must.CheckThat(t, state.Status == mcp.TaskCompleted && state.Result != nil, "%+v", state)
		must.Check(t, task.Cancel(t.Context()))
		err := task.Answer(t.Context(), nil)
		must.CheckThat(t, err != nil, "Answer accepts responses for a tool that has run")
	})
}

// A client that does not support tasks calls tools without them.
func TestNoTasksTurnsOffTasks(t *testing.T) {
	withTasks(t, func(t *testing.T, dial func(...func(*client.Dialer)) *client.Client, _ <-chan error) {
		var asked atomic.Int32
		c := dial(taking("Oslo", &asked), func(d *client.Dialer) { d.NoTasks = true })
		out := must.Get(client.CallTool[weather](t.Context(), c, "greet", nil))(t)
		must.CheckEqual(t, out.City, "Oslo", out)
		task := must.Get(c.StartTool(t.Context(), "break", nil))(t)
		must.CheckEqual(t, task.ID(), "", task)
		var reported *jsonrpc.Error
		_, err := c.CallTool(t.Context(), "build", nil)
		must.CheckThat(t, errors.As(err, &reported), "a tool that requires tasks: %v", err)
	})
}

// Clients of 2025-11-25 run questions as tasks (basic/utilities/tasks). The comments name its sections.

// patientServer returns a server whose tools ask with server.Within.
func patientServer() *server.Server {
	s := newServer()
	within := server.Within(time.Minute)
	server.AddTool(s, mcp.Tool{Name: "form"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[place](ctx, "which city?", within)
		return form.City, err
	})
	server.AddTool(s, mcp.Tool{Name: "model"}, func(ctx context.Context, _ struct{}) (string, error) {
		sampled, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
				Content: []mcp.Content{mcp.Text("which city?")}}},
		}, within)
		if err != nil {
			return "", err
		}
		return sampled.Content[0].(*mcp.TextContent).Text, nil
	})
	return s
}

// sentCount counts the messages of a connection by direction and method.
type sentCount struct {
	mu    sync.Mutex
	count map[string]int // by "> " for sent or "< " for received, and the method
	texts []string
}

// counting returns the messages of a connection that d dials.
func counting(d *client.Dialer) *sentCount {
	n, tap := &sentCount{count: make(map[string]int)}, d.Trace
	d.Trace = func(sent bool, raw []byte) {
		tap(sent, raw)
		n.message(sent, raw)
	}
	return n
}

func (n *sentCount) message(sent bool, raw []byte) {
	m, err := jsonrpc.Parse(append([]byte(nil), raw...), jsonrpc.Limits{})
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	direction := "< "
	if sent {
		direction = "> "
	}
	n.count[direction+m.Method]++
	n.texts = append(n.texts, direction+string(raw))
}

func (n *sentCount) of(message string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[message]
}

func (n *sentCount) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.texts, "\n"), text)
}

// Creating Tasks, Retrieving Task Results: the client creates a task at once, and the server retrieves its result.
// Capability Negotiation: the server does not ask for a task unless the client declares it.
func TestQuestionsWithinATimeRunAsTasksOfTheClient(t *testing.T) {
	for _, noTasks := range []bool{false, true} {
		var n *sentCount
		everywhere(t, patientServer, func(t *testing.T, c *client.Client) {
			for tool, want := range map[string]string{"form": "Oslo", "model": "Rome"} {
				if tool == "form" && c.Revision() < mcp.V20250618 {
					continue
				}
				must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, tool, nil))(t), want, tool)
			}
			results := 0
			if c.Revision() == mcp.V20251125 && !noTasks {
				results = 2
			}
			must.Check(t, c.Close())
			if got := n.of("< tasks/result"); got != results || n.has(`"task":{"ttl":60000}`) != (results > 0) {
				t.Errorf("NoTasks %t: the client received %d requests for results of tasks, want %d: %q", noTasks, got,
					results, n.texts)
			}
			must.CheckEqual(t, n.of("> notifications/tasks/status"), results, noTasks, "the client sent")
		}, func(d *client.Dialer) {
			d.NoTasks, n = noTasks, counting(d)
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"city":"Oslo"}`)}, nil
			}
			d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m",
					Content: []mcp.Content{mcp.Text("Rome")}}, nil
			}
		})
	}
}

// Task Cancellation: the server cancels the task when its handler gives up, and the handler of the client ends.
// Cancellation: tasks/cancel MUST be used instead of notifications/cancelled.
func TestServerThatGivesUpCancelsTheTaskOfTheClient(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan error, 1)
	impatient := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "impatient"}, func(ctx context.Context, _ struct{}) (string, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			go func() {
				<-asked
				cancel(errors.New("no time left"))
			}()
			_, err := server.Elicit[place](ctx, "which city?", server.Within(time.Minute))
			return "", err
		})
		return s
	}
	var n *sentCount
	everywhere(t, impatient, func(t *testing.T, c *client.Client) {
		if c.Revision() != mcp.V20251125 {
			return
		}
		must.CheckFails(t, must.Err(client.CallTool[string](t.Context(), c, "impatient", nil)), "no time left",
			"the tool")
		must.CheckFails(t, <-ended, "cancelled the task", "the handler of the client ended")
		must.CheckThat(t, n.of("< tasks/cancel") == 1 && n.of("< notifications/cancelled") == 0 &&
			n.has(`"status":"cancelled"`), "%q", n.texts)
	}, func(d *client.Dialer) {
		n = counting(d)
		d.Elicit = func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		}
	})
}

// Associating Task-Related Messages: an elicitation on which a task depends MUST share its related
// task, and so MUST the response.
func TestResponseToAQuestionOfATaskNamesTheTask(t *testing.T) {
	for _, tr := range mcptest.Transports() {
		if !tr.Supports(mcp.V20251125) {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) {
			s, _ := taskServer()
			n := &sentCount{count: make(map[string]int)}
			c := tr.Dial(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
				d.Trace = n.message
				d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"city":"Oslo"}`)}, nil
				}
			})
			task := must.Get(c.StartTool(t.Context(), "greet", nil))(t)
			must.Get(task.Wait(t.Context()))(t)
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + task.ID() + `"}}`
			n.mu.Lock()
			defer n.mu.Unlock()
			found := false
			for _, text := range n.texts {
				found = found || strings.HasPrefix(text, "> ") && strings.Contains(text, `"action":"accept"`) &&
					strings.Contains(text, related)
			}
			must.CheckThat(t, found, "no response has %s: %q", related, n.texts)
		})
	}
}
