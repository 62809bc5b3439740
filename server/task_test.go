package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// The comments of these tests name sections of 2025-11-25, basic/utilities/tasks.

// Capabilities: servers that support tasks MUST declare it. Security Considerations: those that cannot
// identify the client SHOULD NOT declare tasks.list. Other revisions have no such capability.
func TestInitializeDeclaresTasks(t *testing.T) {
	s, _ := taskServer()
	without := quiet()
	server.AddTool(without, newTool("plain"), nothing)
	ada := person(t, "ada")
	for _, test := range []struct {
		revision mcp.Revision
		server   *server.Server
		who      principal.Principal
		want     string
	}{
		{mcp.V20251125, s, ada, `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`},
		{mcp.V20251125, s, principal.Anonymous, `{"cancel":{},"requests":{"tools":{"call":{}}}}`},
		{mcp.V20251125, without, ada, ""},
		{mcp.V20250618, s, ada, ""},
		{mcp.V20241105, s, ada, ""},
	} {
		l := connectLineAs(t, test.server, test.who)
		l.Send(fmt.Sprintf(initializeParams, test.revision, "{}"))
		raw := l.Receive()
		var m struct {
			Result struct {
				Capabilities struct{ Tasks, Extensions json.RawMessage }
			}
		}
		must.Do(t, json.Unmarshal([]byte(raw), &m), raw)
		if got := string(m.Result.Capabilities.Tasks); got != test.want || m.Result.Capabilities.Extensions != nil {
			t.Errorf("%s to %v: %s, want %s", test.revision, test.who, raw, test.want)
		}
	}
}

// Tool-Level Negotiation: tools/list declares the support of a tool. Only 2025-11-25 has the field.
func TestToolsListDeclaresTaskSupport(t *testing.T) {
	newServer := func() *server.Server { s, _ := taskServer(); return s }
	onEverySurface(t, newServer, func(t *testing.T, s surface) {
		raw := s.ask(1, mcp.MethodListTools, "")
		var m struct{ Result struct{ Tools []mcp.Tool } }
		err := json.Unmarshal([]byte(raw), &m)
		must.That(t, err == nil && len(m.Result.Tools) != 0, "%s: %v", raw, err)
		for _, tool := range m.Result.Tools {
			want, ok := map[string]mcp.TaskSupport{"plain": "", "never": mcp.TaskForbidden, "only": mcp.TaskRequired}[tool.Name]
			if !ok {
				want = mcp.TaskOptional
			}
			var got mcp.TaskSupport
			if tool.Execution != nil {
				got = tool.Execution.TaskSupport
			}
			if s.revision != mcp.V20251125 {
				want = ""
			}
			must.CheckEqual(t, got, want, tool.Name)
		}
	})
}

// The comments of these tests name sections of the tasks extension, specification/draft/tasks.md.

// Capability Negotiation: server/discover declares the extension with an empty object. The tasks
// capability belongs to 2025-11-25.
func TestDiscoverDeclaresTheTasksExtension(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		result := string(p.must(mcp.MethodDiscover, ""))
		must.CheckThat(t, strings.Contains(result, `"extensions":{"io.modelcontextprotocol/tasks":{}}`) &&
			!strings.Contains(result, `"tasks":{`), "server/discover: %s", result)
	})
}

// Capability Negotiation: the server MUST NOT return CreateTaskResult to a client that did not declare the extension
// on its request, regardless of prior declarations. Protocol Errors: the server MUST return -32021 with the required
// extension, if the tool requires a task, for requests about tasks, whether the task exists or not, and for
// subscriptions to tasks.
func TestClientsWithoutTheExtensionHaveNoTasks(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		id := p.create("work").TaskID
		p.declared = tasklessClient
		r := p.ask(mcp.MethodCallTool, p.taskCall("quick", ""))
		must.CheckThat(t, strings.Contains(r.raw, `"resultType":"complete"`) && strings.Contains(r.raw, "done") &&
			!strings.Contains(r.raw, "taskId"), "not declared: %s", r.raw)
		wantMissingExtension(t, w, p.ask(mcp.MethodCallTool, p.taskCall("only", "")))
		for _, id := range []string{id, "unknown"} {
			for _, method := range w.methods() {
				wantMissingExtension(t, w, p.ask(method, taskMembers(id)+`,"inputResponses":{}`))
			}
			wantMissingExtension(t, w, p.ask(mcp.MethodListen, fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id)))
		}
		p.declared = taskClient
		if s := p.get(id); s.Status != mcp.TaskWorking {
			t.Errorf("the request of a client without the extension changed the task: %s", s.raw)
		}
		for _, ids := range []string{`"x"`, `[1]`, `{}`, `["` + strings.Repeat(`x","`, 100) + `x"]`} {
			p.wantError(mcp.MethodListen, `"notifications":{"taskIds":`+ids+`}`, jsonrpc.CodeInvalidParams, "")
		}
	})
}

// wantMissingExtension fails unless r is the error for a client without the extension.
func wantMissingExtension(t *testing.T, w taskWire, r taskReply) {
	t.Helper()
	must.CheckThat(t, r.err != nil && r.err.Code == mcp.CodeMissingCapability &&
		string(r.err.Data) == `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
		"%s", r.raw)
	must.CheckThat(t, !w.http || r.status == 400, "status %d of %s", r.status, r.raw)
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
		for _, member := range []string{"result", "error", "inputRequests", "requestState", "task", "ttl",
			"pollInterval"} {
			_, ok := jsonrpc.Get(result, member)
			must.CheckThat(t, !ok, "the created task has %s: %s", member, result)
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
			must.CheckThat(t, request.method == mcp.MethodGetTask || len(members) == 1,
				"%s: %s, want an empty result", request.method, raw)
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
			return fmt.Sprintf("%d inputRequests, result %t, error %t", len(s.InputRequests), s.Result != nil,
				s.Error != nil)
		}
		want := func(s taskState, status mcp.TaskStatus, data string) {
			t.Helper()
			must.CheckThat(t, s.Status == status && has(s) == data,
				"%s: %s, want %s with %s", s.Status, s.raw, status, data)
		}
		const none = "0 inputRequests, result false, error false"
		working := p.create("work")
		want(p.get(working.TaskID), mcp.TaskWorking, none)
		(<-jobs).finish <- "well done"
		completed := p.until(working.TaskID, mcp.TaskCompleted)
		want(completed, mcp.TaskCompleted, "0 inputRequests, result true, error false")
		must.CheckThat(t, strings.Contains(string(completed.Result), "well done") &&
			!strings.Contains(completed.raw, mcp.MetaRelatedTask), "completed: %s", completed.raw)
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

// Task Execution Errors: tasks/get, and in 2025-11-25 tasks/result, returns exactly what the request would have
// returned. A tool error MUST complete the task; failed MUST NOT be used for it, only for a JSON-RPC error, which
// MUST be in error. In 2025-11-25 (Result Retrieval, Associating Task-Related Messages) a tool error is a failed
// task, and the result MUST have the related task.
func TestTaskEndsWithTheOutcomeOfTheCall(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		toolError := mcp.TaskCompleted
		if !w.revision.Modern() {
			toolError = mcp.TaskFailed
		}
		for tool, status := range map[string]mcp.TaskStatus{
			"quick": mcp.TaskCompleted, "fail": toolError, "panic": toolError, "exit": toolError,
			"broken": mcp.TaskFailed,
		} {
			p.declared = tasklessClient
			call := p.ask(mcp.MethodCallTool, fmt.Sprintf(`"name":%q`, tool))
			p.declared = taskClient
			id := p.create(tool).TaskID
			for range 2 {
				result, err := p.outcome(id, status)
				must.CheckEqual(t, contentOf(result), contentOf(call.result), tool)
				if fmt.Sprint(err) != fmt.Sprint(call.err) || err != nil && string(err.Data) != string(call.err.Data) {
					t.Errorf("%s: the task has %v, the call %v", tool, err, call.err)
				}
				related := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}`, id)
				must.CheckThat(t, w.revision.Modern() || err != nil || strings.Contains(string(result), related),
					"%s: %s, want %s", tool, result, related)
			}
			s := p.get(id)
			must.CheckThat(t, status != mcp.TaskFailed || s.StatusMessage != "", "%s: %s, want a message", tool, s.raw)
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

// Protocol Errors: an unknown or invalid taskId is -32602, with a message that names the cause, also if the store has
// no such keys. Dispatch: each kind of tasks has its methods.
func TestUnknownTaskIsInvalid(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		const responses = `,"inputResponses":{}`
		for _, method := range w.methods() {
			for _, id := range []string{"unknown", strings.Repeat("x", 257), strings.Repeat("x", storecheck.MaxKey),
				strings.Repeat("x", 3*storecheck.MaxKey)} {
				p.wantError(method, taskMembers(id)+responses, jsonrpc.CodeInvalidParams, "task not found")
			}
			if !w.http || !w.revision.Modern() { // the header would be another fault
				p.wantError(method, `"taskId":""`+responses, jsonrpc.CodeInvalidParams, "task not found")
				p.wantError(method, `"inputResponses":{}`, jsonrpc.CodeInvalidParams, "taskId must be a string")
				p.wantError(method, `"taskId":7`+responses, jsonrpc.CodeInvalidParams, "taskId must be a string")
				p.wantError(method, `"taskID":"x"`+responses, jsonrpc.CodeInvalidParams, `must be written "taskId"`)
			}
		}
		others := []string{mcp.MethodUpdateTask}
		if w.revision.Modern() {
			others = []string{mcp.MethodTaskResult, mcp.MethodListTasks}
			p.wantError(mcp.MethodUpdateTask, taskMembers(p.create("ask").TaskID), jsonrpc.CodeInvalidParams,
				"inputResponses")
		}
		for _, method := range others {
			r := p.ask(method, taskMembers("unknown")+responses)
			must.CheckThat(t, r.err != nil && r.err.Code == jsonrpc.CodeMethodNotFound &&
				(!w.http || !w.revision.Modern() || r.status == 404), "%s: %d %s", method, r.status, r.raw)
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
			must.CheckEqual(t, q.Method, mcp.MethodElicit, key, task.raw)
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
		task = p.get(id)
		must.That(t, task.Status == mcp.TaskInputRequired && len(task.InputRequests) == 1 &&
			task.InputRequests[second].Method != "", "after a partial response: %s", task.raw)
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
		must.CheckThat(t, !seen[third], "key %s was used before: %s", third, task.raw)
		p.update(id, fmt.Sprintf(`{%q:%s,%q:%s}`, third, acceptName("Cy"), first, acceptName("Eve")))
		result, _ := p.outcome(id, mcp.TaskCompleted)
		must.CheckContains(t, string(result), "Ada, Bob, Cy")
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
		result, _ := p.outcome(id, mcp.TaskCompleted)
		must.CheckContains(t, string(result), "Hello, Ada")
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
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`,
				p.lastID), "", "")
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
		must.That(t, len(id) == 26 && !seen[id], "task id %q, seen before: %t", id, seen[id])
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
			must.CheckThat(t, r.err != nil && r.err.Code == mcp.CodeHeaderMismatch && r.status == 400,
				"%s with Mcp-Name %q: %d %s", method, name, r.status, r.raw)
		}
	}
	p.send = send
	if s := p.get(id); s.Status != mcp.TaskWorking {
		t.Errorf("%s", s.raw)
	}
}

// The limit on tasks is one of each principal, and counts the tasks that have ended.
func TestTasksOfAPrincipalAreLimited(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		serve := func() (*server.Server, chan *taskJob) {
			s, jobs := taskServer()
			s.Limits.TasksPerPrincipal, s.Limits.Tasks = 3, 5
			if w.http {
				authenticated(s)
			}
			return s, jobs
		}
		wantOverload := func(r taskReply, limit string) {
			t.Helper()
			must.CheckThat(t, r.err != nil && strings.Contains(r.err.Message, limit) &&
				(!w.http || r.status == 429 || r.status == 503), "%d %s, want the limit of %s", r.status, r.raw, limit)
		}
		s, _ := serve()
		ada := w.connect(t, s, "ada")
		for range 3 {
			ada.outcome(ada.create("quick").TaskID, mcp.TaskCompleted)
		}
		wantOverload(ada.ask(mcp.MethodCallTool, ada.taskCall("quick", "")), "tasks of one principal")
		s, jobs := serve() // where no task that has just ended still has its place
		bob, cy := w.connect(t, s, "bob"), w.connect(t, s, "cy")
		for range 3 {
			bob.create("work")
			<-jobs
		}
		for range 2 {
			cy.create("work")
			<-jobs
		}
		wantOverload(cy.ask(mcp.MethodCallTool, cy.taskCall("work", "")), "running tasks")
	})
}

// 2025-11-25, Security Considerations: the rate of requests about tasks SHOULD be limited, so that ids cannot be
// enumerated. Tasks extension, Task Polling: servers MAY limit the rate of polls.
func TestRequestsAboutTasksAreLimited(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		for _, method := range w.methods() {
			s, _ := taskServer()
			s.Limits.CallsPerSecond = 0.001
			p := w.connect(t, s)
			for i := range 2 {
				r := p.ask(method, taskMembers("unknown")+`,"inputResponses":{}`)
				limited := r.err != nil && r.err.Code == jsonrpc.CodeInternalError &&
					strings.Contains(r.raw, "retryAfterMs")
				must.CheckThat(t, limited == (i == 1), "%s, request %d: %s", method, i+1, r.raw)
			}
		}
	})
}

// Task Support and Handling: receivers that do not declare the capability MUST process the request
// normally and ignore the metadata.
func TestServerWithoutTasksIgnoresThem(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s := quiet()
		server.AddTool(s, newTool("plain"), nothing)
		p := w.connect(t, s)
		for _, task := range []string{`{}`, `{"ttl":1}`, `7`} {
			r := p.must(mcp.MethodCallTool, `"name":"plain","task":`+task)
			must.CheckThat(t, !strings.Contains(string(r), "taskId"), "params.task %s: %s", task, r)
		}
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask} {
			p.wantError(method, `"taskId":"x"`, jsonrpc.CodeMethodNotFound, "")
		}
		if !w.revision.Modern() {
			return
		}
		server.AddTool(s, newTool("job"), nothing, server.AsTask(server.TaskOptions{})) // while it serves
		id := p.create("job").TaskID
		p.outcome(id, mcp.TaskCompleted)
		s.RemoveTool("job")
		p.outcome(id, mcp.TaskCompleted)
	})
}
