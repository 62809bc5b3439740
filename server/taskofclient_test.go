package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The server as the requestor of tasks. The comments name sections of 2025-11-25,
// basic/utilities/tasks.

const (
	tasksOfClient = `{"elicitation":{},"sampling":{},"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}},` +
		`"sampling":{"createMessage":{}}}}}`
	clientTimes = `"createdAt":"2025-11-25T10:00:00Z","lastUpdatedAt":"2025-11-25T10:00:00Z"`
)

// requestor is a client that runs questions as tasks, with fixed answers by method. The last answer
// of a method is repeated.
type requestor struct {
	*taskPeer
	mu       sync.Mutex
	answers  map[string][]string
	received []string // the methods of the requests, and when they arrived
	params   []string
	after    func(method string) // is called after a request was received
}

// clientTask is the state of the client's task "c".
func clientTask(status string) string {
	return fmt.Sprintf(`{"taskId":"c","status":%q,%s,"ttl":60000,"pollInterval":5000}`, status, clientTimes)
}

// connectRequestor connects a client whose tool call "patient" asks for a name within a minute.
func connectRequestor(t *testing.T, w taskWire, declared string, answers map[string][]string) (*requestor, chan error) {
	t.Helper()
	s := quiet()
	failures := make(chan error, 9)
	ask := func(ctx context.Context, within time.Duration) (string, error) {
		who, err := server.Elicit[nameForm](ctx, "Who?", server.Within(within))
		failures <- err
		return "Hello, " + who.Name, err
	}
	server.AddTool(s, mcp.Tool{Name: "patient"}, func(ctx context.Context, _ struct{}) (string, error) {
		return ask(ctx, time.Minute)
	})
	server.AddTool(s, mcp.Tool{Name: "plain"}, func(ctx context.Context, _ struct{}) (string, error) {
		return ask(ctx, 0)
	})
	server.AddTool(s, mcp.Tool{Name: "short"}, func(ctx context.Context, _ struct{}) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 7*time.Second)
		defer cancel()
		return ask(ctx, time.Minute)
	})
	r := &requestor{answers: answers}
	w.declared = declared
	r.taskPeer = w.connect(t, s)
	r.taskPeer.answer = r.next
	return r, failures
}

func (r *requestor) next(m *jsonrpc.Message) string {
	r.mu.Lock()
	r.received = append(r.received, m.Method)
	r.params = append(r.params, string(m.Params.Raw()))
	list := r.answers[m.Method]
	answer := ""
	if len(list) > 0 {
		answer = list[0]
	}
	if len(list) > 1 {
		r.answers[m.Method] = list[1:]
	}
	after := r.after
	r.mu.Unlock()
	if after != nil {
		after(m.Method)
	}
	return answer
}

// requests returns the methods of the requests of the server.
func (r *requestor) requests() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.received, " ")
}

// clientAnswers returns the answers of a client whose task has the states.
func clientAnswers(states ...string) map[string][]string {
	a := map[string][]string{
		mcp.MethodElicit:     {`{"task":` + clientTask("working") + `}`},
		mcp.MethodTaskResult: {acceptName("Ada")},
		mcp.MethodCancelTask: {clientTask("cancelled")},
	}
	for _, state := range states {
		a[mcp.MethodGetTask] = append(a[mcp.MethodGetTask], clientTask(state))
	}
	return a
}

// Creating Tasks, Getting Tasks, Retrieving Task Results: the server creates a task, SHOULD respect the
// pollInterval, SHOULD poll until the task has ended, and retrieves the result. It MUST NOT rely on
// status notifications. Associating Task-Related Messages: its requests SHOULD NOT have the related task.
func TestServerPollsTheTaskOfItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := connectRequestor(t, taskWire{revision: mcp.V20251125}, tasksOfClient,
			clientAnswers("working", "working", "completed"))
		start := time.Now()
		result := (<-r.start(mcp.MethodCallTool, `"name":"patient"`)).raw
		if took := time.Since(start); !strings.Contains(result, "Hello, Ada") || took != 15*time.Second {
			t.Errorf("%s after %v, want three polls, one each 5s", result, took)
		}
		must.CheckEqual(t, r.requests(), "elicitation/create tasks/get tasks/get tasks/get tasks/result")
		must.CheckThat(t, strings.Contains(r.params[0], `"task":{"ttl":60000}`) &&
			!strings.Contains(strings.Join(r.params, ""), mcp.MetaRelatedTask), "%q", r.params)
	})
}

// Task Status Notification: a notification wakes the server.
func TestStatusNotificationOfTheClientWakesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := connectRequestor(t, taskWire{revision: mcp.V20251125}, tasksOfClient, clientAnswers("completed"))
		start := time.Now()
		waiting := r.start(mcp.MethodCallTool, `"name":"patient"`)
		time.Sleep(time.Second)
		for _, params := range []string{``, `"taskId":7`, `"taskId":"other"`} { // malformed, or of another task
			r.send(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{`+params+`}}`, "", "")
		}
		r.send(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":`+clientTask("completed")+`}`, "", "")
		r.await(waiting)
		if took := time.Since(start); took != time.Second ||
			r.requests() != "elicitation/create tasks/get tasks/result" {
			t.Errorf("after %v: %s", took, r.requests())
		}
	})
}

// The notification may arrive before the response that creates the task, on another stream.
func TestEarlyStatusNotificationWakesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := connectRequestor(t, taskWire{revision: mcp.V20251125}, tasksOfClient, clientAnswers("completed"))
		r.after = func(method string) {
			if method != mcp.MethodElicit {
				return
			}
			for i := range 20 { // changes of unknown tasks do not accumulate
				r.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"%d"}}`,
					i), "", "")
			}
			r.send(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":`+clientTask("completed")+`}`, "",
				"")
		}
		start := time.Now()
		r.must(mcp.MethodCallTool, `"name":"patient"`)
		must.CheckEqual(t, time.Since(start), 0)
	})
}

// Without tasks, Within is the time-out of the request.
func TestWithinIsTheTimeForAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		within, after time.Duration
		late          bool
	}{
		"longer than the default":  {time.Hour, 50 * time.Minute, false},
		"too late":                 {time.Hour, 61 * time.Minute, true},
		"shorter than the default": {time.Second, 2 * time.Second, true},
		"not positive":             {-1, 9 * time.Minute, false}, "the default": {0, 11 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := quiet()
				server.AddTool(s, newTool("ask"), func(ctx context.Context, _ struct{}) (string, error) {
					who, err := server.Elicit[nameForm](ctx, "Who?", server.Within(tc.within))
					return "Hello, " + who.Name, err
				})
				p := taskWire{revision: mcp.V20251125, declared: `{"elicitation":{}}`}.connect(t, s)
				p.answer = func(*jsonrpc.Message) string { time.Sleep(tc.after); return acceptName("Ada") }
				r := <-p.start(mcp.MethodCallTool, `"name":"ask"`)
				must.CheckThat(t, strings.Contains(r.raw, "Hello, Ada") != tc.late, "%s", r.raw)
			})
		})
	}
}

// A question of a task runs as a task of the client that sends tasks/result, too. Associating
// Task-Related Messages: it MUST have the related task.
func TestQuestionOfATaskRunsAsTaskOfTheClient(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s := quiet()
		server.AddTool(s, newTool("ask"), func(ctx context.Context, _ struct{}) (string, error) {
			who, err := server.Elicit[nameForm](ctx, "Who?", server.Within(time.Minute))
			return "Hello, " + who.Name, err
		}, server.AsTask(server.TaskOptions{}))
		w.declared = tasksOfClient
		r := &requestor{taskPeer: w.connect(t, s), answers: clientAnswers("completed")}
		r.answers[mcp.MethodElicit] = []string{strings.Replace(`{"task":`+clientTask("working")+`}`, "5000", "100", 1)}
		r.taskPeer.answer = r.next
		id := r.create("ask").TaskID
		must.CheckContains(t, string(r.must(mcp.MethodTaskResult, taskMembers(id))), "Hello, Ada")
		related := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}`, id)
		if r.requests() != "elicitation/create tasks/get tasks/result" || !strings.Contains(r.params[0], related) ||
			!strings.Contains(r.params[0], `"task":{"ttl":60000}`) {
			t.Errorf("%s: %q", r.requests(), r.params)
		}
	})
}

// Capability Negotiation: the server SHOULD only augment a request whose type the client has declared;
// the set of requests is exhaustive.
func TestServerAsksForDeclaredTasksOnly(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		for declared, want := range map[string]bool{
			`{"elicitation":{}}`:            false,
			`{"elicitation":{},"tasks":{}}`: false,
			`{"elicitation":{},"tasks":{"list":{},"cancel":{},"requests":{}}}`:                                  false,
			`{"elicitation":{},"tasks":{"requests":{"elicitation":{}}}}`:                                        false,
			`{"elicitation":{},"sampling":{},"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`:           false,
			`{"elicitation":{},"tasks":{"requests":{"elicitation":{"create":{}}}}}`:                             true,
			`{"elicitation":{},"sampling":{},"tasks":{"requests":{"elicitation":{"create":{}},"sampling":{}}}}`: true,
		} {
			answers := clientAnswers("completed")
			answers[mcp.MethodElicit] = []string{acceptName("Bob")} // a client may also answer at once
			r, _ := connectRequestor(t, w, declared, answers)
			for _, tool := range []string{"patient", "plain"} {
				result := r.must(mcp.MethodCallTool, fmt.Sprintf(`"name":%q`, tool))
				must.CheckContains(t, string(result), "Hello, Bob", declared, result)
			}
			if augmented := strings.Contains(r.params[0], `"task":`); augmented != want ||
				strings.Contains(r.params[1], `"task":`) {
				t.Errorf("%s: params %q", declared, r.params)
			}
		}
	})
}

// Task Execution Errors: the error of the request is that of tasks/result. A task that the client no longer
// has is an error, too.
func TestHandlerReceivesTheOutcomeOfTheClientsTask(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(map[string][]string)
		want     string // in the error
		requests string
	}{
		"failed": {func(a map[string][]string) {
			a[mcp.MethodGetTask] = []string{clientTask("failed")}
			a[mcp.MethodTaskResult] = []string{`error:{"code":-32099,"message":"the screen is off"}`}
		}, "the screen is off", "elicitation/create tasks/get tasks/result"},
		"cancelled": {func(a map[string][]string) {
			a[mcp.MethodGetTask] = []string{clientTask("cancelled")}
			a[mcp.MethodTaskResult] = []string{`error:{"code":-32603,"message":"the user cancelled"}`}
		}, "the user cancelled", "elicitation/create tasks/get tasks/result"},
		"forgotten": {func(a map[string][]string) {
			a[mcp.MethodGetTask] = []string{`error:{"code":-32602,"message":"no such task"}`}
		}, "no such task", "elicitation/create tasks/get"},
		"rejected": {func(a map[string][]string) {
			a[mcp.MethodElicit] = []string{`error:{"code":-32600,"message":"no tasks today"}`}
		}, "no tasks today", "elicitation/create"},
		"another task": {func(a map[string][]string) {
			a[mcp.MethodGetTask] = []string{strings.Replace(clientTask("completed"), `"c"`, `"d"`, 1)}
		}, "another task", "elicitation/create tasks/get tasks/cancel"},
		"without an id": {func(a map[string][]string) {
			a[mcp.MethodElicit] = []string{`{"task":{}}`}
		}, "without an id", "elicitation/create"},
		// Input Required Status: the server SHOULD call tasks/result.
		"input required": {func(a map[string][]string) {
			a[mcp.MethodGetTask] = []string{clientTask("input_required")}
		}, "", "elicitation/create tasks/get tasks/result"},
		"ended at once": {func(a map[string][]string) {
			a[mcp.MethodElicit] = []string{`{"task":` + clientTask("completed") + `}`}
		}, "", "elicitation/create tasks/result"},
		// The client has not answered one request about the task.
		"a lost response": {func(a map[string][]string) {
			a[mcp.MethodGetTask] = []string{"", clientTask("completed")}
		}, "", "elicitation/create tasks/get tasks/get tasks/result"},
		"a lost result": {func(a map[string][]string) {
			a[mcp.MethodTaskResult] = []string{""}
		}, "did not respond", "elicitation/create tasks/get tasks/result tasks/cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := clientAnswers("completed")
				tc.change(answers)
				r, failures := connectRequestor(t, taskWire{revision: mcp.V20251125}, tasksOfClient, answers)
				<-r.start(mcp.MethodCallTool, `"name":"patient"`)
				err := <-failures
				must.CheckThat(t, (err == nil) == (tc.want == "") &&
					(err == nil || strings.Contains(err.Error(), tc.want) || errors.As(err, new(*call.TimeoutError))),
					"%v, want %q", err, tc.want)
				must.CheckThat(t, !strings.Contains(fmt.Sprint(err), "%!"), "the text is malformed: %v", err)
				must.CheckEqual(t, r.requests(), tc.requests)
			})
		})
	}
}

// Task Cancellation; basic/utilities/cancellation: for task-augmented requests, tasks/cancel MUST be used
// instead of notifications/cancelled. A client that cannot cancel tasks is not asked to.
func TestServerCancelsTheTaskThatItNoLongerNeeds(t *testing.T) {
	const noCancel = `{"elicitation":{},"tasks":{"requests":{"elicitation":{"create":{}}}}}`
	cancelCall := func(r *requestor) { // the client cancels the tool call
		r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", "")
	}
	for name, tc := range map[string]struct {
		declared, tool string
		state          string // "" means that the response that creates the task comes late, "never" that none does
		end            func(*requestor)
		cancelled      bool
	}{
		"the handler's deadline":            {tasksOfClient, "short", "working", nil, true},
		"the deadline of the question":      {tasksOfClient, "patient", "working", nil, true},
		"the client cancels the call":       {tasksOfClient, "patient", "working", cancelCall, true},
		"a client that cannot cancel":       {noCancel, "short", "working", nil, false},
		"while the client creates the task": {tasksOfClient, "short", "", nil, true},
		"the call ends during the creation": {tasksOfClient, "patient", "", cancelCall, true},
		"the client creates no task":        {tasksOfClient, "short", "never", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := clientAnswers("working")
				if tc.state != "working" {
					answers[mcp.MethodElicit] = []string{""}
				}
				r, failures := connectRequestor(t, taskWire{revision: mcp.V20251125}, tc.declared, answers)
				created := make(chan string, 1)
				r.taskPeer.answer = func(m *jsonrpc.Message) string {
					if m.Method == mcp.MethodElicit {
						created <- m.ID.String()
					}
					return r.next(m)
				}
				r.start(mcp.MethodCallTool, fmt.Sprintf(`"name":%q`, tc.tool))
				id := <-created
				time.Sleep(6500 * time.Millisecond)
				if tc.end != nil {
					tc.end(r)
				}
				if tc.state == "" { // the response comes a little too late
					time.Sleep(900 * time.Millisecond)
					r.send(`{"jsonrpc":"2.0","id":`+id+`,"result":{"task":`+clientTask("working")+`}}`, "", "")
				}
				err := <-failures
				must.CheckThat(t, err != nil, "the question has an answer")
				synctest.Wait()
				if got := strings.Contains(r.requests(), mcp.MethodCancelTask); got != tc.cancelled {
					t.Errorf("the server sent %s", r.requests())
				}
				if n := r.notifications(); strings.Contains(n, fmt.Sprintf(`"requestId":%s`, id)) {
					t.Errorf("the server cancelled the request that creates the task: %s", n)
				}
			})
		})
	}
}
