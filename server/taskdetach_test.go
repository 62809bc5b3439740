package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/task"
)

// detaching returns a server with the tool "detach".
func detaching(handle func(context.Context) (string, error)) *server.Server {
	s := quiet()
	server.AddTool(s, mcp.Tool{Name: "detach"}, func(ctx context.Context, _ struct{}) (string, error) {
		return handle(ctx)
	},
		server.Parked(), server.AsTask(server.TaskOptions{TTL: 2 * time.Hour}))
	return s
}

// Tasks extension, Task Creation: questions before the creation of the task SHOULD be resolved
// synchronously. Those after it are questions of the task.
func TestQuestionsBeforeDetachAreThoseOfTheCall(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		p := w.connect(t, detaching(func(ctx context.Context) (string, error) {
			first, err := server.Elicit[nameForm](ctx, "Who?", server.Keyed("first"))
			if err != nil {
				return "", err
			}
			if err = server.Detach(ctx); err != nil {
				return "", err
			}
			second, err := server.Elicit[nameForm](ctx, "Who else?", server.Keyed("second"))
			return first.Name + " and " + second.Name, err
		}))
		r := p.ask(mcp.MethodCallTool, `"name":"detach"`)
		state, _ := jsonrpc.Get(r.result, "requestState")
		must.That(t, strings.Contains(r.raw, `"resultType":"input_required"`) && strings.Contains(r.raw, `"first":{`) &&
			!strings.Contains(r.raw, "taskId"), "first round: %s", r.raw)
		task := p.created(p.must(mcp.MethodCallTool,
			fmt.Sprintf(`"name":"detach","inputResponses":{"first":%s},"requestState":%s`, acceptName("Ada"), state)))
		must.CheckThat(t, !strings.Contains(task.raw, "requestState") && !strings.Contains(task.raw, "inputRequests") &&
			strings.Contains(task.raw, `"ttlMs":7200000`), "second round: %s", task.raw)
		s := p.until(task.TaskID, mcp.TaskInputRequired)
		must.CheckThat(t, len(s.InputRequests) == 1 && s.InputRequests["second"].Method != "", "the task: %s", s.raw)
		p.update(task.TaskID, fmt.Sprintf(`{"second":%s}`, acceptName("Bob")))
		result, _ := p.outcome(task.TaskID, mcp.TaskCompleted)
		must.CheckContains(t, string(result), "Ada and Bob")
	})
}

// In 2025-11-25 the client decides: the call is a task from its beginning, or never.
func TestLegacyClientDecidesBeforeDetach(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		p := w.connect(t, detaching(func(ctx context.Context) (string, error) {
			who, err := server.Elicit[nameForm](ctx, "Who?")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s, %v", who.Name, server.Detach(ctx)), nil
		}))
		p.answer = func(*jsonrpc.Message) string { return acceptName("Ada") }
		p.until(p.create("detach").TaskID, mcp.TaskInputRequired)
		r := p.ask(mcp.MethodTaskResult, taskMembers(p.create("detach").TaskID))
		must.CheckThat(t, strings.Contains(r.raw, "Ada, \\u003cnil\\u003e") || strings.Contains(r.raw, "Ada, <nil>"),
			"a task: %s", r.raw)
		must.CheckContains(t, p.ask(mcp.MethodCallTool, `"name":"detach"`).raw,
			"Ada, not supported by the revision of the protocol or the connection of this call", "no task")
	})
}

// Detach: the client may not support tasks, and the handler need not call Detach.
func TestCallWithoutDetachHasItsResult(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		detach := true
		p := w.connect(t, detaching(func(ctx context.Context) (string, error) {
			if !detach {
				return "no task", nil
			}
			return fmt.Sprintf("unsupported: %t, %v", errors.Is(server.Detach(ctx), errors.ErrUnsupported), ctx.Err()), nil
		}))
		p.declared = tasklessClient
		r := p.ask(mcp.MethodCallTool, `"name":"detach"`)
		must.CheckThat(t, strings.Contains(r.raw, "unsupported: true, ") &&
			strings.Contains(r.raw, `"resultType":"complete"`), "a client without tasks: %s", r.raw)
		p.declared, detach = taskClient, false
		r = p.ask(mcp.MethodCallTool, `"name":"detach"`)
		must.CheckThat(t, strings.Contains(r.raw, "no task") && strings.Contains(r.raw, `"resultType":"complete"`),
			"a handler that does not call Detach: %s", r.raw)
	})
	must.CheckIs(t, server.Detach(t.Context()), call.ErrNoCall, "outside of a handler")
	s := quiet()
	server.AddTool(s, mcp.Tool{Name: "plain"}, func(ctx context.Context, _ struct{}) (string, error) {
		return fmt.Sprint(errors.Is(server.Detach(ctx), errors.ErrUnsupported)), nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "prompt"}, func(ctx context.Context, _ struct{}) (string, error) {
		return fmt.Sprint(errors.Is(server.Detach(ctx), errors.ErrUnsupported)), nil
	})
	l := connectLine(t, s)
	c := l.callTool(`"name":"plain"`)
	must.CheckEqual(t, c.text, "true", "a tool without AsTask", c)
	r, err := l.ask(mcp.MethodGetPrompt, `"name":"prompt"`)
	must.CheckThat(t, err == nil && strings.Contains(string(r), `"true"`), "a prompt: %s %v", r, err)
	s = quiet()
	server.AddTool(s, mcp.Tool{Name: "required"}, func(context.Context, struct{}) (string, error) {
		return "no task", nil
	},
		server.Parked(), server.AsTask(server.TaskOptions{Support: mcp.TaskRequired}))
	p := taskWire{revision: mcp.V20260728}.connect(t, s)
	p.declared = tasklessClient
	wantMissingExtension(t, taskWire{revision: mcp.V20260728}, p.ask(mcp.MethodCallTool, `"name":"required"`))
}

// Detach: the context of the handler does not end with the response. The task exists when Detach returns, and further
// calls of Detach have no effect.
func TestDetachedHandlerContinuesAfterTheResponse(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		contexts, proceed := make(chan context.Context, 1), make(chan struct{})
		p := w.connect(t, detaching(func(ctx context.Context) (string, error) {
			if err := server.Detach(ctx); err != nil {
				return "", err
			}
			var again sync.WaitGroup
			for range 3 {
				again.Go(func() {
					err := server.Detach(ctx)
					must.CheckThat(t, err == nil && ctx.Err() == nil, "Detach again: %v", err)
				})
			}
			again.Wait()
			contexts <- ctx
			select {
			case <-proceed:
			case <-ctx.Done():
			}
			return fmt.Sprint("ended: ", ctx.Err()), nil
		}))
		id := p.create("detach").TaskID
		c := <-contexts
		if s := p.get(id); s.Status != mcp.TaskWorking || c.Err() != nil {
			t.Errorf("%s, %v", s.raw, c.Err())
		}
		s := call.From(c).Peer()
		must.CheckThat(t, s.Capabilities != nil && s.Capabilities.Elicitation != nil, "the peer in the task: %v", s)
		close(proceed)
		result, _ := p.outcome(id, mcp.TaskCompleted)
		must.CheckThat(t, strings.Contains(string(result), "ended: \\u003cnil") ||
			strings.Contains(string(result), "ended: <nil"), "%s", result)
		<-c.Done()
	})
}

// A tool that fails has the same outcome before and after Detach as in any other call.
func TestHandlerCanFailBeforeAndAfterDetach(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":          func() error { return errors.New("it failed") },
		"protocol error": func() error { return jsonrpc.Errorf(1234, "it broke") },
		"panic":          func() error { panic("hunter2") },
		"runtime.Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			detach := false
			s := detaching(func(ctx context.Context) (string, error) {
				if detach {
					must.Check(t, server.Detach(ctx))
				}
				return "", fail()
			})
			server.AddTool(s, mcp.Tool{Name: "plain"}, func(context.Context, struct{}) (string, error) {
				return "", fail()
			})
			p := taskWire{revision: mcp.V20260728}.connect(t, s)
			want := p.ask(mcp.MethodCallTool, `"name":"plain"`)
			before := p.ask(mcp.MethodCallTool, `"name":"detach"`)
			must.CheckEqual(t, contentOf(before.result), contentOf(want.result), before.raw, want.raw)
			must.CheckEqual(t, fmt.Sprint(before.err), fmt.Sprint(want.err), before.raw, want.raw)
			detach = true
			status := mcp.TaskCompleted
			if want.err != nil {
				status = mcp.TaskFailed
			}
			result, err := p.outcome(p.create("detach").TaskID, status)
			must.CheckThat(t, contentOf(result) == contentOf(want.result) && fmt.Sprint(err) == fmt.Sprint(want.err),
				"after Detach: %s %v, want %s", result, err, want.raw)
		})
	}
}

// Detach: an error of the store leaves the call what it is. A call that the client has cancelled cannot
// become a task.
func TestDetachCanFail(t *testing.T) {
	report := func(ctx context.Context) (string, error) { return fmt.Sprint("detached: ", server.Detach(ctx)), nil }
	s := detaching(report)
	s.Store = newHookedStore(func(_ context.Context, op, _ string, _ []byte) error {
		if op == "add" {
			return store.ErrFull
		}
		return nil
	})
	p := taskWire{revision: mcp.V20260728}.connect(t, s)
	r := p.ask(mcp.MethodCallTool, `"name":"detach"`)
	must.CheckThat(t, strings.Contains(r.raw, `"resultType":"complete"`) && !strings.Contains(r.raw, "nil") &&
		strings.Contains(r.raw, "detached: "), "a full store: %s", r.raw)
	started, outcome := make(chan struct{}), make(chan bool, 1)
	p = taskWire{revision: mcp.V20260728}.connect(t, detaching(func(ctx context.Context) (string, error) {
		close(started)
		<-ctx.Done()
		err := server.Detach(ctx)
		outcome <- err != nil && err == context.Cause(ctx)
		return "", err
	}))
	p.start(mcp.MethodCallTool, `"name":"detach"`)
	<-started
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", "")
	must.CheckThat(t, <-outcome, "Detach did not return the cause of the cancellation")
}

// engine is a driver whose tasks have the states that the test sets.
type engine struct {
	mu    sync.Mutex
	state task.State
	err   error
	calls []string
}

func (e *engine) set(state task.State, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state, e.err = state, err
}

func (e *engine) called(format string, args ...any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
	return e.err
}

// take returns the calls since the last take, without the id of the task.
func (e *engine) take(id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	calls := strings.Join(e.calls, "; ")
	e.calls = nil
	if id == "" {
		return calls
	}
	return strings.ReplaceAll(calls, id, "ID")
}

func (e *engine) Start(_ context.Context, s task.Start) error {
	return e.called("start %s %s %s for %v", s.ID, s.Tool, s.Arguments, s.Client.Elicitation != nil)
}

func (e *engine) Get(_ context.Context, id string) (task.State, error) {
	err := e.called("get %s", id)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, err
}

func (e *engine) Update(_ context.Context, id string, answers map[string]json.RawMessage) error {
	raw, _ := json.Marshal(answers)
	return e.called("update %s %s", id, raw)
}

func (e *engine) Cancel(_ context.Context, id string) error { return e.called("cancel %s", id) }

func newDrivenServer(e *engine) *server.Server {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "job"}, func(context.Context, struct {
		N int `json:"n,omitzero"`
	}) (string, error) {
		return "without a task", nil
	}, server.Parked(), server.AsTask(server.TaskOptions{Driver: e}))
	return s
}

func TestDriverRunsTheTasksOfItsTool(t *testing.T) {
	e := &engine{}
	w := connect(t, newDrivenServer(e))
	request := func(method, params string) string {
		t.Helper()
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + withTasks + `}}`)
		_, result, _ := strings.Cut(w.Receive(), `"id":1,`)
		return result
	}
	created := request("tools/call", `"name":"job","arguments":{"n":1}`)
	id := member(t, created, "taskId")
	if got := e.take(id); got != `start ID job {"n":1} for true` || !strings.Contains(created, `"status":"working"`) {
		t.Errorf("%s\n%s", got, created)
	}
	target := `"taskId":"` + id + `"`
	for _, step := range []struct {
		state        task.State
		err          error
		method, more string
		want, called string
	}{
		{task.State{Message: "queued"}, nil, "tasks/get", "", `"status":"working","statusMessage":"queued"`, "get ID"},
		{task.State{}, errors.New("canary"), "tasks/get", "", `"error":{"code":-32603,"message":"internal error"}`,
			"get ID"},
		{task.State{}, &jsonrpc.Error{Code: -32001, Message: "later"}, "tasks/get", "",
			`"error":{"code":-32001,"message":"later"}`, "get ID"},
		{task.State{Status: "unknown"}, nil, "tasks/get", "", `"internal error"`, "get ID"},
		{task.State{Status: mcp.TaskCompleted}, nil, "tasks/get", "", `"internal error"`, "get ID"},
		{
			task.State{Status: mcp.TaskInputRequired, InputRequests: mcp.InputRequests{"k": {Method: mcp.MethodElicit,
				Params: json.RawMessage(`{"message":"?"}`)}}}, nil,
			"tasks/get", "", `"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}`, "get ID",
		},
		{task.State{}, nil, "tasks/update", `,"inputResponses":{"k":{"action":"accept"}}`,
			`"result":{"resultType":"complete"`, `update ID {"k":{"action":"accept"}}`},
		{task.State{Status: mcp.TaskFailed}, nil, "tasks/get", "",
			`"status":"failed","statusMessage":"the task failed"`, "get ID"},
		{task.State{Status: mcp.TaskWorking}, nil, "tasks/get", "", `"status":"failed"`, ""},
		{task.State{}, nil, "tasks/update", `,"inputResponses":{"k":{}}`, `"resultType":"complete"`, ""},
		{task.State{}, nil, "tasks/cancel", "", `"resultType":"complete"`, ""},
	} {
		e.set(step.state, step.err)
		got := request(step.method, target+step.more)
		called := e.take(id)
		must.CheckThat(t, strings.Contains(got, step.want) && called == step.called && !strings.Contains(got, "canary"),
			"%s in %+v: %s\ncalled %s", step.method, step.state, got, called)
	}
	e.set(task.State{Status: mcp.TaskCompleted,
		Result: &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}}, nil)
	id = member(t, request("tools/call", `"name":"job","arguments":{}`), "taskId")
	must.CheckContains(t, request("tasks/get", `"taskId":"`+id+`"`),
		`"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
	id = member(t, request("tools/call", `"name":"job","arguments":{}`), "taskId")
	e.take(id)
	request("tasks/cancel", `"taskId":"`+id+`"`)
	got := request("tasks/get", `"taskId":"`+id+`"`)
	must.CheckThat(t, strings.Contains(got, `"status":"cancelled"`) && e.take(id) == "cancel ID", "%v", got)
}

func TestTasksThatCannotStartDoNotExist(t *testing.T) {
	e := &engine{}
	w := connect(t, newDrivenServer(e))
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{"n":"x"},` + withTasks +
		`}}`)
	if got := w.Receive(); !strings.Contains(got, `"code":-32602,"message":"invalid arguments: `) || e.take("") != "" {
		t.Error(got)
	}
	e.set(task.State{}, &jsonrpc.Error{Code: -32001, Message: "the engine is full"})
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
	must.CheckContains(t, w.Receive(), `"message":"the engine is full"`)
	calls := e.take("")
	id, _, _ := strings.Cut(strings.TrimPrefix(calls, "start "), " ")
	must.CheckThat(t, strings.HasSuffix(calls, "; cancel "+id), "%v", calls) // the engine may have started it
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
	got := w.Receive()
	must.CheckThat(t, strings.Contains(got, "task not found") && e.take("") == "", "%v", got)
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + wiretest.Meta +
		`}}`)
	must.CheckContains(t, w.Receive(), "without a task")
}

// Nothing announces the changes of an engine, so the server polls it while a client waits.
func TestWaitingClientsReceiveTheChangesOfAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		w := connect(t, newDrivenServer(e))
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks +
			`}}`)
		id := member(t, w.Receive(), "taskId")
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id +
			`"]},` + withTasks + `}}`)
		w.Expect(acknowledged(`2`, `{"taskIds":["`+id+`"]}`))
		got := w.Receive()
		must.CheckEqual(t, member(t, got, "status"), "working", got)
		e.set(task.State{Status: mcp.TaskFailed, Error: &jsonrpc.Error{Code: -1, Message: "no"}}, nil)
		if got := w.Receive(); !strings.Contains(got, `"status":"failed"`) ||
			!strings.Contains(got, `"error":{"code":-1,"message":"no"}`) {
			t.Error(got)
		}

		e.set(task.State{Status: mcp.TaskInputRequired, InputRequests: mcp.InputRequests{"k": {Method: mcp.MethodElicit,
			Params: json.RawMessage(`{"message":"?"}`)}}}, nil)
		session := connect(t, newDrivenServer(e))
		session.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
		session.Receive()
		session.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`)
		id = member(t, session.Receive(), "taskId")
		e.take(id)
		session.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		question := session.Receive()
		must.That(t, json.Unmarshal([]byte(question), &m) == nil && m.Method == "elicitation/create", "%v", question)
		e.set(task.State{Status: mcp.TaskCompleted,
			Result: &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}, IsError: true}}, nil)
		session.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, m.ID))
		must.CheckContains(t, session.Receive(), `"text":"done"`)
		must.CheckContains(t, e.take(id), `update ID {"k":{"action":"decline"}}`)
	})
}
