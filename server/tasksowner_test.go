package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Tasks extension, Security Considerations: the server MUST authorize each request about a task.
// 2025-11-25, basic/utilities/tasks, Task Isolation and Access Control: tasks MUST be bound to the
// authorization context, and requests of others MUST be rejected. Their responses are those for a task
// that does not exist.
func TestTaskDoesNotExistForOtherPrincipals(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		if w.http {
			authenticated(s)
		}
		ada, bob := w.connect(t, s, "ada"), w.connect(t, s, "bob")
		working, asking, done := ada.create("work").TaskID, ada.create("ask").TaskID, ada.create("quick").TaskID
		j := <-jobs
		ada.until(asking, mcp.TaskInputRequired)
		ada.until(done, mcp.TaskCompleted)
		methods := []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult}
		if w.revision.Modern() {
			methods = []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask}
		}
		before := make(map[string]string)
		for _, id := range []string{working, asking, done} {
			before[id] = ada.get(id).raw
			for _, method := range methods {
				members := func(id string) string {
					return fmt.Sprintf(`"taskId":%q,"inputResponses":{"who":%s}`, id, acceptName("Eve"))
				}
				got, unknown := bob.ask(method, members(id)), bob.ask(method, members("unknown"))
				if got.err == nil || fmt.Sprint(got.err) != fmt.Sprint(unknown.err) || got.err.Code != jsonrpc.CodeInvalidParams || got.status != unknown.status {
					t.Errorf("%s: %s, want %s", method, got.raw, unknown.raw)
				}
			}
			if after := ada.get(id).raw; after != before[id] {
				t.Errorf("%s\nwas %s", after, before[id])
			}
		}
		if j.ctx.Err() != nil {
			t.Error("another principal cancelled the task")
		}
		if w.revision.Modern() {
			return
		}
		if list := string(bob.must(mcp.MethodListTasks, "")); strings.Contains(list, working) {
			t.Errorf("tasks/list: %s", list)
		}
	})
}

// The limit on tasks is one of each principal, and counts the tasks that have ended.
func TestTasksOfAPrincipalAreLimited(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		s.Limits.TasksPerPrincipal, s.Limits.Tasks = 3, 5
		if w.http {
			authenticated(s)
		}
		ada, bob, cy := w.connect(t, s, "ada"), w.connect(t, s, "bob"), w.connect(t, s, "cy")
		for range 3 {
			ada.outcome(ada.create("quick").TaskID, mcp.TaskCompleted)
		}
		wantOverload := func(r taskReply, limit string) {
			t.Helper()
			if r.err == nil || !strings.Contains(r.err.Message, limit) || w.http && r.status != 429 && r.status != 503 {
				t.Errorf("%d %s, want the limit of %s", r.status, r.raw, limit)
			}
		}
		wantOverload(ada.ask(mcp.MethodCallTool, ada.taskCall("quick", "")), "tasks of one principal")
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

// Tasks extension, Task Status Notifications: the acknowledgement lists the tasks of the caller only.
func TestSubscribersDoNotSeeTheTasksOfOthers(t *testing.T) {
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		if w.http {
			authenticated(s)
		}
		ada, bob := w.connect(t, s, "ada"), w.connect(t, s, "bob")
		hers, his := ada.create("work").TaskID, bob.create("work").TaskID
		bob.start(mcp.MethodListen, fmt.Sprintf(`"notifications":{"taskIds":[%q,%q,"unknown"]}`, hers, his))
		eventually(t, func() bool { return strings.Contains(bob.notifications(), `"taskId":"`+his) })
		for range 2 {
			(<-jobs).finish <- "well done"
		}
		eventually(t, func() bool { return strings.Contains(bob.notifications(), `"status":"completed"`) })
		ada.until(hers, mcp.TaskCompleted)
		if all := bob.notifications(); strings.Contains(all, hers) || !strings.Contains(all, `"taskIds":["`+his+`"]`) {
			t.Errorf("%s", all)
		}
	})
}

// 2025-11-25, Security Considerations: the rate of requests about tasks SHOULD be limited, so that ids cannot be
// enumerated. Tasks extension, Task Polling: servers MAY limit the rate of polls.
func TestRequestsAboutTasksAreLimited(t *testing.T) {
	onTaskWires(t, func(t *testing.T, w taskWire) {
		methods := []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult}
		if w.revision.Modern() {
			methods = []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask}
		}
		for _, method := range methods {
			s, _ := taskServer()
			s.Limits.CallsPerSecond, s.Limits.CallBurst = 0.001, 2
			p := w.connect(t, s)
			for i := range 3 {
				r := p.ask(method, taskMembers("unknown")+`,"inputResponses":{}`)
				if limited := r.err != nil && r.err.Code == jsonrpc.CodeInternalError && strings.Contains(r.raw, "retryAfterMs"); limited != (i == 2) {
					t.Errorf("%s, request %d: %s", method, i+1, r.raw)
				}
			}
		}
	})
}
