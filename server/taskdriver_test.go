package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/task"
)

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
	}, server.AsTask(server.TaskOptions{Driver: e}))
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
		{task.State{}, errors.New("canary"), "tasks/get", "", `"error":{"code":-32603,"message":"internal error"}`, "get ID"},
		{task.State{}, &jsonrpc.Error{Code: -32001, Message: "later"}, "tasks/get", "", `"error":{"code":-32001,"message":"later"}`, "get ID"},
		{task.State{Status: "unknown"}, nil, "tasks/get", "", `"internal error"`, "get ID"},
		{task.State{Status: mcp.TaskCompleted}, nil, "tasks/get", "", `"internal error"`, "get ID"},
		{
			task.State{Status: mcp.TaskInputRequired, InputRequests: mcp.InputRequests{"k": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"message":"?"}`)}}}, nil,
			"tasks/get", "", `"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}`, "get ID",
		},
		{task.State{}, nil, "tasks/update", `,"inputResponses":{"k":{"action":"accept"}}`, `"result":{"resultType":"complete"`, `update ID {"k":{"action":"accept"}}`},
		{task.State{Status: mcp.TaskFailed}, nil, "tasks/get", "", `"status":"failed","statusMessage":"the task failed"`, "get ID"},
		{task.State{Status: mcp.TaskWorking}, nil, "tasks/get", "", `"status":"failed"`, ""},
		{task.State{}, nil, "tasks/update", `,"inputResponses":{"k":{}}`, `"resultType":"complete"`, ""},
		{task.State{}, nil, "tasks/cancel", "", `"resultType":"complete"`, ""},
	} {
		e.set(step.state, step.err)
		got := request(step.method, target+step.more)
		if called := e.take(id); !strings.Contains(got, step.want) || called != step.called || strings.Contains(got, "canary") {
			t.Errorf("%s in %+v: %s\ncalled %s", step.method, step.state, got, called)
		}
	}
	e.set(task.State{Status: mcp.TaskCompleted, Result: &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}}, nil)
	id = member(t, request("tools/call", `"name":"job","arguments":{}`), "taskId")
	if got := request("tasks/get", `"taskId":"`+id+`"`); !strings.Contains(got, `"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`) {
		t.Error(got)
	}
	id = member(t, request("tools/call", `"name":"job","arguments":{}`), "taskId")
	e.take(id)
	request("tasks/cancel", `"taskId":"`+id+`"`)
	if got := request("tasks/get", `"taskId":"`+id+`"`); !strings.Contains(got, `"status":"cancelled"`) || e.take(id) != "cancel ID" {
		t.Error(got)
	}
}

func TestTasksThatCannotStartDoNotExist(t *testing.T) {
	e := &engine{}
	w := connect(t, newDrivenServer(e))
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{"n":"x"},` + withTasks + `}}`)
	if got := w.Receive(); !strings.Contains(got, `"code":-32602,"message":"invalid arguments: `) || e.take("") != "" {
		t.Error(got)
	}
	e.set(task.State{}, &jsonrpc.Error{Code: -32001, Message: "the engine is full"})
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
	if got := w.Receive(); !strings.Contains(got, `"message":"the engine is full"`) {
		t.Error(got)
	}
	calls := e.take("")
	id, _, _ := strings.Cut(strings.TrimPrefix(calls, "start "), " ")
	if !strings.HasSuffix(calls, "; cancel "+id) { // the engine may have started it
		t.Error(calls)
	}
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
	if got := w.Receive(); !strings.Contains(got, "task not found") || e.take("") != "" {
		t.Error(got)
	}
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + wiretest.Meta + `}}`)
	if got := w.Receive(); !strings.Contains(got, "without a task") {
		t.Error(got)
	}
}

// Nothing announces the changes of an engine, so the server polls it while a client waits.
func TestWaitingClientsReceiveTheChangesOfAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		w := connect(t, newDrivenServer(e))
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
		id := member(t, w.Receive(), "taskId")
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id + `"]},` + withTasks + `}}`)
		w.Expect(acknowledged(`2`, `{"taskIds":["`+id+`"]}`))
		if got := w.Receive(); member(t, got, "status") != "working" {
			t.Error(got)
		}
		e.set(task.State{Status: mcp.TaskFailed, Error: &jsonrpc.Error{Code: -1, Message: "no"}}, nil)
		if got := w.Receive(); !strings.Contains(got, `"status":"failed"`) || !strings.Contains(got, `"error":{"code":-1,"message":"no"}`) {
			t.Error(got)
		}

		e.set(task.State{Status: mcp.TaskInputRequired, InputRequests: mcp.InputRequests{"k": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"message":"?"}`)}}}, nil)
		session := connect(t, newDrivenServer(e))
		session.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
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
		if question := session.Receive(); json.Unmarshal([]byte(question), &m) != nil || m.Method != "elicitation/create" {
			t.Fatal(question)
		}
		e.set(task.State{Status: mcp.TaskCompleted, Result: &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}, IsError: true}}, nil)
		session.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, m.ID))
		if got := session.Receive(); !strings.Contains(got, `"text":"done"`) {
			t.Error(got)
		}
		if calls := e.take(id); !strings.Contains(calls, `update ID {"k":{"action":"decline"}}`) {
			t.Error(calls)
		}
	})
}
