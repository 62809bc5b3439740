package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The comments of these tests name sections of the tasks extension, specification/draft/tasks.md.

// Capability Negotiation: server/discover declares the extension with an empty object. The tasks
// capability belongs to 2025-11-25.
func TestDiscoverDeclaresTheTasksExtension(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		result := string(p.must(mcp.MethodDiscover, ""))
		if !strings.Contains(result, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) || strings.Contains(result, `"tasks":{`) {
			t.Errorf("server/discover: %s", result)
		}
	})
}

// Capability Negotiation: the server MUST NOT return CreateTaskResult to a client that did not
// declare the extension on its request, regardless of prior declarations. If the tool requires a
// task, the server MUST return -32021 with the required extension.
func TestClientWithoutTheExtensionGetsNoTask(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		if r := p.ask(mcp.MethodCallTool, p.taskCall("quick", "")); !strings.Contains(r.raw, `"resultType":"task"`) {
			t.Errorf("declared: %s", r.raw)
		}
		p.declared = tasklessClient
		if r := p.ask(mcp.MethodCallTool, p.taskCall("quick", "")); !strings.Contains(r.raw, `"resultType":"complete"`) || !strings.Contains(r.raw, "done") || strings.Contains(r.raw, "taskId") {
			t.Errorf("not declared: %s", r.raw)
		}
		wantMissingExtension(t, w, p.ask(mcp.MethodCallTool, p.taskCall("only", "")))
	})
}

// wantMissingExtension fails unless r is the error for a client without the extension.
func wantMissingExtension(t *testing.T, w taskWire, r taskReply) {
	t.Helper()
	if r.err == nil || r.err.Code != mcp.CodeMissingCapability || string(r.err.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
		t.Errorf("%s", r.raw)
	}
	if w.http && r.status != 400 {
		t.Errorf("status %d of %s", r.status, r.raw)
	}
}

// Protocol Errors: servers MUST return -32021 for tasks/get, tasks/update and tasks/cancel of clients that
// have not declared the extension, whether the task exists or not.
func TestTaskMethodsRequireTheExtension(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		id := p.create("work").TaskID
		p.declared = tasklessClient
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask} {
			for _, id := range []string{id, "unknown"} {
				wantMissingExtension(t, w, p.ask(method, taskMembers(id)+`,"inputResponses":{}`))
			}
		}
		p.declared = taskClient
		if s := p.get(id); s.Status != mcp.TaskWorking {
			t.Errorf("the request of a client without the extension changed the task: %s", s.raw)
		}
	})
}

// Polymorphic Results: resultType MUST be task in CreateTaskResult and MUST NOT be task in others;
// Task Polling, Task Update Requests, Task Cancellation: it MUST be complete in their results. Task
// Cancellation, Task Update Requests: the acknowledgement MUST be empty.
func TestResultTypeIsTaskOnlyOfACreatedTask(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		result := p.must(mcp.MethodCallTool, p.taskCall("work", ""))
		id := p.created(result).TaskID
		for _, member := range []string{"result", "error", "inputRequests", "requestState", "task", "ttl", "pollInterval"} {
			if _, ok := jsonrpc.Get(result, member); ok {
				t.Errorf("the created task has %s: %s", member, result)
			}
		}
		for _, request := range []struct{ method, members string }{
			{mcp.MethodGetTask, taskMembers(id)},
			{mcp.MethodUpdateTask, taskMembers(id) + `,"inputResponses":{"unknown":{}}`},
			{mcp.MethodCancelTask, taskMembers(id)},
			{mcp.MethodCancelTask, taskMembers(id)}, // a task that has ended
			{mcp.MethodGetTask, taskMembers(id)},
		} {
			var members map[string]json.RawMessage
			raw := p.must(request.method, request.members)
			if err := json.Unmarshal(raw, &members); err != nil || string(members["resultType"]) != `"complete"` {
				t.Errorf("%s: %s", request.method, raw)
			}
			delete(members, "_meta")
			if request.method != mcp.MethodGetTask && len(members) != 1 {
				t.Errorf("%s: %s, want an empty result", request.method, raw)
			}
		}
	})
}

// Task Polling: a working task has neither inputRequests nor a result; a task that requires input MUST
// have all outstanding requests, a completed task MUST have its result and a failed task its error.
func TestTaskStateHasTheDataOfItsStatus(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		p := w.connect(t, s)
		has := func(s taskState) string {
			return fmt.Sprintf("%d inputRequests, result %t, error %t", len(s.InputRequests), s.Result != nil, s.Error != nil)
		}
		want := func(s taskState, status mcp.TaskStatus, data string) {
			t.Helper()
			if s.Status != status || has(s) != data {
				t.Errorf("%s: %s, want %s with %s", s.Status, s.raw, status, data)
			}
		}
		const none = "0 inputRequests, result false, error false"
		working := p.create("work")
		want(p.get(working.TaskID), mcp.TaskWorking, none)
		(<-jobs).finish <- "well done"
		completed := p.until(working.TaskID, mcp.TaskCompleted)
		want(completed, mcp.TaskCompleted, "0 inputRequests, result true, error false")
		if !strings.Contains(string(completed.Result), "well done") || strings.Contains(completed.raw, mcp.MetaRelatedTask) {
			t.Errorf("completed: %s", completed.raw)
		}
		asking := p.until(p.create("chat").TaskID, mcp.TaskInputRequired)
		want(asking, mcp.TaskInputRequired, "2 inputRequests, result false, error false")
		p.must(mcp.MethodCancelTask, taskMembers(asking.TaskID))
		want(p.get(asking.TaskID), mcp.TaskCancelled, none)
		failed := p.until(p.create("broken").TaskID, mcp.TaskFailed)
		want(failed, mcp.TaskFailed, "0 inputRequests, result false, error true")
		if failed.StatusMessage == "" { // Task Execution Errors: SHOULD
			t.Errorf("no status message: %s", failed.raw)
		}
	})
}

// Task Execution Errors: tasks/get returns exactly what the request would have returned. A tool error
// MUST complete the task; failed MUST NOT be used for it, only for a JSON-RPC error, which MUST be in error.
func TestTaskEndsWithTheOutcomeOfTheCall(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		for tool, status := range map[string]mcp.TaskStatus{
			"quick": mcp.TaskCompleted, "fail": mcp.TaskCompleted, "panic": mcp.TaskCompleted, "exit": mcp.TaskCompleted, "broken": mcp.TaskFailed,
		} {
			p.declared = tasklessClient
			call := p.ask(mcp.MethodCallTool, p.taskCall(tool, ""))
			p.declared = taskClient
			result, err := p.outcome(p.create(tool).TaskID, status)
			if got, want := contentOf(result), contentOf(call.result); got != want {
				t.Errorf("%s: the task has %s, the call %s", tool, got, want)
			}
			if fmt.Sprint(err) != fmt.Sprint(call.err) || err != nil && string(err.Data) != string(call.err.Data) {
				t.Errorf("%s: the task has %v, the call %v", tool, err, call.err)
			}
		}
	})
}

// contentOf returns the content of a result, without metadata.
func contentOf(result json.RawMessage) string {
	if result == nil {
		return "no result"
	}
	content, _ := jsonrpc.Get(result, "content")
	isError, _ := jsonrpc.Get(result, "isError")
	structured, _ := jsonrpc.Get(result, "structuredContent")
	return fmt.Sprintf("%s isError %s structured %s", content, isError, structured)
}

// Protocol Errors: an unknown or invalid taskId is -32602, with a message that names the cause.
// Dispatch: tasks/result and tasks/list belong to 2025-11-25.
func TestUnknownTaskIsInvalid(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask} {
			const responses = `,"inputResponses":{}`
			p.wantError(method, `"taskId":"unknown"`+responses, jsonrpc.CodeInvalidParams, "task not found")
			p.wantError(method, `"taskId":"`+strings.Repeat("x", 300)+`"`+responses, jsonrpc.CodeInvalidParams, "task not found")
			if !w.http { // an empty header is a missing one
				p.wantError(method, `"taskId":""`+responses, jsonrpc.CodeInvalidParams, "task not found")
				p.wantError(method, `"inputResponses":{}`, jsonrpc.CodeInvalidParams, "taskId must be a string")
			}
		}
		p.wantError(mcp.MethodUpdateTask, taskMembers(p.create("ask").TaskID), jsonrpc.CodeInvalidParams, "inputResponses")
		for _, method := range []string{mcp.MethodTaskResult, mcp.MethodListTasks} {
			r := p.ask(method, taskMembers("unknown"))
			if r.err == nil || r.err.Code != jsonrpc.CodeMethodNotFound || w.http && r.status != 404 {
				t.Errorf("%s: %d %s", method, r.status, r.raw)
			}
		}
	})
}

// Task Update Requests: keys MUST be unique over the lifetime of a task. Responses to keys that are not
// outstanding SHOULD be ignored: those never issued, and those that have been answered. Partial
// responses leave the task in input_required with the others.
func TestKeysOfInputRequestsAreNeverReused(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		task := p.until(p.create("chat").TaskID, mcp.TaskInputRequired)
		id, seen := task.TaskID, make(map[string]bool)
		for key, q := range task.InputRequests {
			seen[key] = true
			if q.Method != mcp.MethodElicit {
				t.Errorf("%s: %s", key, task.raw)
			}
		}
		first, second := "", ""
		for key, q := range task.InputRequests {
			if strings.Contains(string(q.Params), "Who else?") {
				second = key
			} else {
				first = key
			}
		}
		p.update(id, fmt.Sprintf(`{%q:%s,"unknown":%s}`, first, acceptName("Ada"), acceptName("Eve")))
		if task = p.get(id); task.Status != mcp.TaskInputRequired || len(task.InputRequests) != 1 || task.InputRequests[second].Method == "" {
			t.Fatalf("after a partial response: %s", task.raw)
		}
		p.update(id, fmt.Sprintf(`{%q:%s}`, first, acceptName("Eve"))) // has been answered
		p.update(id, fmt.Sprintf(`{%q:%s,%q:%s}`, second, acceptName("Bob"), first, acceptName("Eve")))
		third := ""
		eventually(t, func() bool {
			task = p.get(id)
			for key := range task.InputRequests {
				third = key
			}
			return third != "" && !seen[third]
		})
		if seen[third] {
			t.Errorf("key %s was used before: %s", third, task.raw)
		}
		p.update(id, fmt.Sprintf(`{%q:%s,%q:%s}`, third, acceptName("Cy"), first, acceptName("Eve")))
		result, _ := p.outcome(id, mcp.TaskCompleted)
		if !strings.Contains(string(result), "Ada, Bob, Cy") {
			t.Errorf("%s", result)
		}
	})
}

// Task Update Requests: an answer that does not fit is asked again, with another key, because a response
// for the first one has been delivered.
func TestInvalidAnswerIsAskedAgainWithAnotherKey(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		id := p.create("ask").TaskID
		p.until(id, mcp.TaskInputRequired)
		p.update(id, `{"who":{"action":"accept","content":{"name":7}}}`)
		var task taskState
		eventually(t, func() bool {
			task = p.get(id)
			return len(task.InputRequests) == 1 && task.InputRequests["who"].Method == ""
		})
		for key := range task.InputRequests {
			p.update(id, fmt.Sprintf(`{%q:%s}`, key, acceptName("Ada")))
		}
		if result, _ := p.outcome(id, mcp.TaskCompleted); !strings.Contains(string(result), "Hello, Ada") {
			t.Errorf("%s", result)
		}
	})
}

// Task Cancellation: the acknowledgement is not a result, and notifications/cancelled MUST NOT be used.
func TestOnlyTasksCancelCancelsATask(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		p := w.connect(t, s)
		id := p.create("work").TaskID
		j := <-jobs
		if !w.http { // a connection has one namespace for the ids of requests
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, p.lastID), "", "")
		}
		if s := p.get(id); s.Status != mcp.TaskWorking || j.ctx.Err() != nil {
			t.Errorf("after notifications/cancelled: %s", s.raw)
		}
		p.must(mcp.MethodCancelTask, taskMembers(id))
		<-j.ctx.Done()
		<-j.ended
		if s := p.get(id); s.Status != mcp.TaskCancelled {
			t.Errorf("after tasks/cancel: %s", s.raw)
		}
		p.must(mcp.MethodUpdateTask, taskMembers(id)+`,"inputResponses":{}`)
		if s := p.get(id); s.Status != mcp.TaskCancelled {
			t.Errorf("after tasks/update: %s", s.raw)
		}
	})
}

// Security Considerations: ids MUST have sufficient entropy: 26 characters of base32 are 130 bits.
func TestTaskIDsCannotBeGuessed(t *testing.T) {
	s, _ := taskServer()
	p := taskWire{revision: mcp.V20260728}.connect(t, s)
	seen := make(map[string]bool)
	for range 200 {
		id := p.create("quick").TaskID
		if len(id) != 26 || seen[id] {
			t.Fatalf("task id %q, seen before: %t", id, seen[id])
		}
		seen[id] = true
	}
}

// Streamable HTTP, Routing Headers: the client MUST set Mcp-Name to the id of the task.
func TestMcpNameIsTheIDOfTheTask(t *testing.T) {
	s, _ := taskServer()
	p := taskWire{revision: mcp.V20260728, http: true}.connect(t, s)
	id := p.create("work").TaskID
	send := p.send
	for _, name := range []string{"", "other", strings.ToLower(id)} {
		p.send = func(body, method, _ string) { send(body, method, name) }
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask} {
			r := p.ask(method, taskMembers(id)+`,"inputResponses":{}`)
			if r.err == nil || r.err.Code != mcp.CodeHeaderMismatch || r.status != 400 {
				t.Errorf("%s with Mcp-Name %q: %d %s", method, name, r.status, r.raw)
			}
		}
	}
	p.send = send
	if s := p.get(id); s.Status != mcp.TaskWorking {
		t.Errorf("%s", s.raw)
	}
}

// Protocol Errors: servers MUST return -32021 for clients without the extension that request notifications
// about tasks on subscriptions/listen.
func TestSubscriptionToTasksRequiresTheExtension(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		id := p.create("work").TaskID
		p.declared = tasklessClient
		for _, id := range []string{id, "unknown"} {
			wantMissingExtension(t, w, p.ask(mcp.MethodListen, fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id)))
		}
	})
}
