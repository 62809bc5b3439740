package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// taskState is a task as the server describes it, of either kind.
type taskState struct {
	TaskID        string         `json:"taskId"`
	Status        mcp.TaskStatus `json:"status"`
	StatusMessage string         `json:"statusMessage"`
	CreatedAt     time.Time      `json:"createdAt"`
	LastUpdatedAt time.Time      `json:"lastUpdatedAt"`
	TTL           *int64         `json:"ttl"`
	TTLMs         *int64         `json:"ttlMs"`

	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	} `json:"inputRequests"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`

	raw string
}

// taskCall returns the members of a call of a tool as a task.
func (p *taskPeer) taskCall(tool, arguments string) string {
	members := fmt.Sprintf(`"name":%q,"arguments":{%s}`, tool, arguments)
	if !p.revision.Modern() {
		members += `,"task":{}`
	}
	return members
}

// create calls a tool as a task and returns the task.
func (p *taskPeer) create(tool string) taskState {
	p.t.Helper()
	return p.created(p.must(mcp.MethodCallTool, p.taskCall(tool, "")))
}

// created returns the task in the result of a call.
func (p *taskPeer) created(result json.RawMessage) taskState {
	p.t.Helper()
	var legacy struct {
		Task json.RawMessage `json:"task"`
	}
	raw := result
	if !p.revision.Modern() {
		if err := json.Unmarshal(result, &legacy); err != nil {
			p.t.Fatal(err)
		}
		raw = legacy.Task
	} else if !strings.Contains(string(result), `"resultType":"task"`) {
		p.t.Fatalf("no task: %s", result)
	}
	return p.decode(raw)
}

func (p *taskPeer) decode(raw json.RawMessage) taskState {
	p.t.Helper()
	s := taskState{raw: string(raw)}
	if err := json.Unmarshal(raw, &s); err != nil || s.TaskID == "" {
		p.t.Fatalf("no task: %s: %v", raw, err)
	}
	return s
}

func taskMembers(id string) string { return fmt.Sprintf(`"taskId":%q`, id) }

// get returns the state of a task.
func (p *taskPeer) get(id string) taskState {
	p.t.Helper()
	return p.decode(p.must(mcp.MethodGetTask, taskMembers(id)))
}

// until polls a task until it has the status.
func (p *taskPeer) until(id string, status mcp.TaskStatus) taskState {
	p.t.Helper()
	timeout := time.After(wiretest.Patience)
	for {
		s := p.get(id)
		if s.Status == status {
			return s
		}
		if s.Status.Terminal() {
			p.t.Fatalf("the task ended: %s, want %s", s.raw, status)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			p.t.Fatalf("status %s: %s, want %s", s.Status, s.raw, status)
		}
	}
}

// outcome returns the result or error of a task that asks no questions. It fails unless the task
// ends with the status.
func (p *taskPeer) outcome(id string, status mcp.TaskStatus) (result json.RawMessage, err *jsonrpc.Error) {
	p.t.Helper()
	s := p.until(id, status)
	if p.revision.Modern() {
		return s.Result, s.Error
	}
	r := p.ask(mcp.MethodTaskResult, taskMembers(id))
	return r.result, r.err
}

// update answers questions of a task of 2026-07-28.
func (p *taskPeer) update(id, responses string) {
	p.t.Helper()
	p.must(mcp.MethodUpdateTask, fmt.Sprintf(`"taskId":%q,"inputResponses":%s`, id, responses))
}

// accepted is the answer of a user who fills in the form.
func acceptName(name string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"name":%q}}`, name)
}

// taskJob is a call of the tool "work".
type taskJob struct {
	ctx    context.Context
	finish chan string
	ended  chan struct{} // closed when the handler returns
}

type nameForm struct {
	Name string `json:"name"`
}

// taskServer returns a server with a tool for each way in which a task can end, and the calls of
// the tool "work".
func taskServer() (s *server.Server, jobs chan *taskJob) {
	s, jobs = quiet(), make(chan *taskJob, 100)
	optional := server.AsTask(server.TaskOptions{})
	add := func(name string, handle func(context.Context, struct{}) (string, error), options ...server.ToolOption) {
		server.AddTool(s, mcp.Tool{Name: name}, handle, options...)
	}
	done := func(context.Context, struct{}) (string, error) { return "done", nil }
	work := func(ctx context.Context, _ struct{}) (string, error) {
		j := &taskJob{ctx, make(chan string), make(chan struct{})}
		defer close(j.ended)
		jobs <- j
		select {
		case text := <-j.finish:
			return text, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	ask := func(ctx context.Context, _ struct{}) (string, error) {
		who, err := server.Elicit[nameForm](ctx, "Who?", server.Key("who"))
		return "Hello, " + who.Name, err
	}
	add("plain", done)
	add("quick", done, optional)
	add("only", done, server.AsTask(server.TaskOptions{Support: mcp.TaskRequired}))
	add("work", work, optional)
	add("fail", func(context.Context, struct{}) (string, error) { return "", errors.New("it failed") }, optional)
	add("broken", func(context.Context, struct{}) (string, error) {
		return "", &jsonrpc.Error{Code: 1234, Message: "it broke", Data: json.RawMessage(`{"why":"test"}`)}
	}, optional)
	add("panic", func(context.Context, struct{}) (string, error) { panic("hunter2") }, optional)
	add("exit", func(context.Context, struct{}) (string, error) { runtime.Goexit(); return "", nil }, optional)
	add("ask", ask, optional)
	add("chat", func(ctx context.Context, _ struct{}) (string, error) {
		var first, second, third nameForm
		err := server.Ask(ctx, server.ElicitInto(&first, "Who?"), server.ElicitInto(&second, "Who else?"))
		if err == nil {
			err = server.Ask(ctx, server.ElicitInto(&third, "Who?")) // with the same content as the first
		}
		return first.Name + ", " + second.Name + ", " + third.Name, err
	}, optional)
	return s, jobs
}
