package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The tasks of 2025-11-25, where the client decides.

const coreTasks = `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`

// sessionTasks returns a server of 2025-11-25 whose tool "a" has the given support for tasks.
func sessionTasks(support mcp.TaskSupport, states ...string) *script {
	s := legacyServer()
	s.Answers["initialize"] = []string{`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},` +
		coreTasks + `},"serverInfo":{"name":"old","version":"1"}}`}
	s.Answers["tools/list"] = []string{sessionList(support)}
	s.Answers["tools/call"] = []string{`"result":{"task":{"taskId":"t","status":"working",` + taskTimes +
		`,"ttl":60000,"pollInterval":2000}}`}
	s.Answers["tasks/get"] = states
	s.Answers["tasks/result"] = []string{outcome}
	s.Answers["tasks/cancel"] = []string{sessionState("cancelled")}
	return s
}

func sessionList(support mcp.TaskSupport) string {
	return `"result":{"tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"` + string(support) +
		`"}}]}`
}

func sessionState(status string) string {
	return `"result":{"taskId":"t","status":"` + status + `",` + taskTimes + `,"ttl":null,"pollInterval":2000}`
}

// mustBeTasks is the error for a tool that runs only as a task, or only without one.
const mustBeTasks = `"error":{"code":-32601,"message":"not like this"}`

func inSession(d *client.Dialer) { d.Revision = mcp.V20251125 }

// Tool-Level Negotiation of 2025-11-25, basic/utilities/tasks.
func TestToolDecidesWhetherItRunsAsTask(t *testing.T) {
	const plain, asTask = `{"name":"a"}`, `{"name":"a","task":{}}`
	for name, tc := range map[string]struct {
		support mcp.TaskSupport
		listed  bool // the program has listed the tools before the call
		start   bool // call it with StartTool
		calls   []string
	}{
		"required":             {mcp.TaskRequired, true, false, []string{asTask}},
		"required, unlisted":   {mcp.TaskRequired, false, false, []string{asTask}},
		"optional":             {mcp.TaskOptional, true, false, []string{plain}},
		"optional, StartTool":  {mcp.TaskOptional, true, true, []string{asTask}},
		"unlisted, StartTool":  {mcp.TaskOptional, false, true, []string{asTask}},
		"forbidden, StartTool": {mcp.TaskForbidden, true, true, []string{plain}},
		"unknown, StartTool":   {"sometimes", true, true, []string{plain}},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := sessionTasks(tc.support, sessionState("working"), sessionState("completed"))
			if tc.calls[0] == plain {
				s.Answers["tools/call"] = []string{outcome}
			}
			c, out := dialTask(t, inSession, s)
			if tc.listed {
				must.Check(t, drain(c.Tools(t.Context())))
			}
			start := time.Now()
			var result *mcp.CallToolResult
			var err error
			if tc.start {
				var task *client.Task
				if task, err = c.StartTool(t.Context(), "a", nil); err == nil {
					result, err = task.Wait(t.Context())
				}
			} else {
				result, err = c.CallTool(t.Context(), "a", nil)
			}
			must.Do(t, err)
			must.Equal(t, len(result.Content), 1, result)
			got := out.of("tools/call")
			must.CheckThat(t, slices.Equal(got, tc.calls), "tools/call %q, want %q", got, tc.calls)
			if task := slices.Contains(tc.calls, asTask); task != (len(out.of("tasks/result")) == 1) {
				t.Errorf("tasks/result %q", out.of("tasks/result"))
			} else if took := time.Since(start); task && (took < 4*time.Second || took > 4400*time.Millisecond) {
				t.Errorf("two polls took %v, want 2 x 2s and up to 10%% more", took)
			}
		})
	}
}

// Some encoders write null for fields that are not set.
func TestResultWhoseTaskIsNullIsTheResultOfTheTool(t *testing.T) {
	s := sessionTasks(mcp.TaskOptional)
	s.Answers["tools/call"] = []string{`"result":{"content":[{"type":"text","text":"called"}],"task":null}`}
	var seen any // what the middleware saw
	c, _ := dialTask(t, func(d *client.Dialer) {
		inSession(d)
		d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				result, err := next(ctx, c)
				if c.Method() == mcp.MethodCallTool {
					seen = result
				}
				return result, err
			}
		}}
	}, s)
	task, err := c.StartTool(t.Context(), "a", nil)
	must.Do(t, err)
	result, err := task.Wait(t.Context())
	must.Do(t, err)
	must.Equal(t, len(result.Content), 1, result)
	_, ok := seen.(*mcp.CallToolResult)
	must.CheckThat(t, ok, "the middleware sees a %T", seen)
}

// A tool may change. The client does not repeat the call that the server rejects, because the tool itself may have
// returned the error, but it gets the next call right.
func TestToolMayStopRunningAsTask(t *testing.T) {
	s := sessionTasks("")
	s.Answers["tools/list"] = []string{sessionList(mcp.TaskRequired), sessionList(mcp.TaskForbidden)}
	s.Answers["tools/call"] = []string{mustBeTasks, outcome}
	c, out := dialTask(t, inSession, s)
	names(t, c)
	for _, works := range []bool{false, true} {
		_, err := c.CallTool(t.Context(), "a", nil)
		must.CheckEqual(t, err == nil, works, err)
	}
	got := out.of("tools/call")
	must.CheckThat(t, slices.Equal(got, []string{`{"name":"a","task":{}}`, `{"name":"a"}`}), "tools/call %q", got)
}

// The error for an unknown tool is not hidden, and the call is not repeated.
func TestCallOfUnknownToolIsNotRepeated(t *testing.T) {
	s := sessionTasks(mcp.TaskOptional)
	s.Answers["tools/call"] = []string{mustBeTasks}
	c, out := dialTask(t, inSession, s)
	for _, name := range []string{"a", "b"} {
		var reported *jsonrpc.Error
		_, err := c.CallTool(t.Context(), name, nil)
		must.CheckThat(t, errors.As(err, &reported) && reported.Code == -32601, "%v", err)
	}
	out.wants(t, "tools/call", 2)
}

// A client must not ask for tasks if the server does not declare them.
func TestServerWithoutTasksGetsPlainCalls(t *testing.T) {
	for name, declared := range map[string]string{
		"none": ``, "no requests": `,"tasks":{}`, "other requests": `,"tasks":{"requests":{"tools":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := sessionTasks(mcp.TaskRequired)
			s.Answers["initialize"] = []string{strings.Replace(s.Answers["initialize"][0], ","+coreTasks, declared, 1)}
			s.Answers["tools/call"] = []string{outcome}
			c, out := dialTask(t, inSession, s)
			names(t, c)
			must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
			task := must.Get(c.StartTool(t.Context(), "a", nil))(t)
			must.CheckEqual(t, task.ID(), "", task)
			got := out.of("tools/call")
			must.CheckThat(t, slices.Equal(got, []string{`{"name":"a"}`, `{"name":"a"}`}), "tools/call %q", got)
		})
	}
}

// A server may ignore params.task.
func TestServerMayIgnoreRequestForTask(t *testing.T) {
	s := sessionTasks(mcp.TaskRequired)
	s.Answers["tools/call"] = []string{outcome}
	c, _ := dialTask(t, inSession, s)
	names(t, c)
	wantCalled(t, c, "a")
}

func TestOutcomesOfTasksInSessions(t *testing.T) {
	const reported = `"error":{"code":-32099,"message":"not today"}`
	for name, tc := range map[string]struct {
		states  []string
		results []string
		check   func(error) bool
	}{
		"failed": {[]string{sessionState("failed")}, []string{reported},
			func(err error) bool { return codeOf(err) == -32099 }},
		"tool error": {[]string{sessionState("failed")}, []string{`"result":{"content":[],"isError":true}`},
			func(err error) bool { return errors.As(err, new(*client.ToolError)) }},
		"cancelled": {[]string{sessionState("cancelled")}, []string{reported},
			func(err error) bool { return errors.Is(err, client.ErrTaskCancelled) }},
		"forgotten": {[]string{forgotten}, nil, func(err error) bool { return errors.Is(err, client.ErrTaskNotFound) }},
		"dreaming": {[]string{sessionState("dreaming")}, nil,
			func(err error) bool { return errors.Is(err, call.ErrInvalidResponse) }},
		"another task": {[]string{strings.Replace(sessionState("working"), `"t"`, `"u"`, 1)}, nil,
			func(err error) bool { return errors.Is(err, call.ErrInvalidResponse) }},
		"completed": {[]string{sessionState("completed")}, []string{outcome},
			func(err error) bool { return err == nil }},
		"cancelled while it requires input": {[]string{sessionState("input_required"), sessionState("cancelled")},
			[]string{reported},
			func(err error) bool { return errors.Is(err, client.ErrTaskCancelled) }},
		"failed while it requires input": {[]string{sessionState("input_required"), sessionState("failed")},
			[]string{reported},
			func(err error) bool { return codeOf(err) == -32099 }},
		"invalid arguments": {[]string{sessionState("input_required")}, []string{forgotten},
			func(err error) bool { return codeOf(err) == -32602 }},
		// The response does not come within the time-out, but the task works.
		"late": {[]string{sessionState("input_required")}, []string{"", "", "", outcome},
			func(err error) bool { return err == nil }},
		"connection lost": {[]string{sessionState("input_required")}, []string{"!close"},
			func(err error) bool { return err == nil }},
		"connection lost, 2": {[]string{sessionState("completed")}, []string{"!close"},
			func(err error) bool { return err == nil }},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := sessionTasks(mcp.TaskRequired, tc.states...)
			s.Answers["tasks/result"] = tc.results
			next := sessionTasks(mcp.TaskRequired, sessionState("completed"))
			c, out := dialTask(t, inSession, s, next)
			names(t, c)
			_, err := client.CallTool[string](t.Context(), c, "a", nil)
			must.CheckThat(t, tc.check(err), "%v", err)
			got := len(out.of("tasks/cancel"))
			must.CheckEqual(t, got == 1, name == "dreaming" || name == "another task", got, "requests to cancel")
		})
	}
}

// codeOf returns the code of the error that the server reports, or 0.
func codeOf(err error) int64 {
	var reported *jsonrpc.Error
	if errors.As(err, &reported) {
		return int64(reported.Code)
	}
	return 0
}

func TestCancelOfTaskInSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessionTasks(mcp.TaskRequired, sessionState("working"))
		c, out := dialTask(t, inSession, s)
		names(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		must.CheckIs(t, must.Err(c.CallTool(ctx, "a", nil)), context.DeadlineExceeded)
		got := out.of("tasks/cancel")
		must.CheckThat(t, slices.Equal(got, []string{`{"taskId":"t"}`}), "tasks/cancel %q", got)
	})
	t.Run("of a task that has ended", func(t *testing.T) {
		s := sessionTasks(mcp.TaskRequired, sessionState("completed"))
		s.Answers["tasks/cancel"] = []string{forgotten}
		c, _ := dialTask(t, inSession, s)
		task := must.Get(c.Task("t"))(t)
		must.Check(t, task.Cancel(t.Context()))
	})
	t.Run("by a server that cannot", func(t *testing.T) {
		s := sessionTasks(mcp.TaskRequired, sessionState("working"))
		s.Answers["initialize"] = []string{strings.Replace(s.Answers["initialize"][0], `"cancel":{},`, ``, 1)}
		c, out := dialTask(t, inSession, s)
		task := must.Get(c.Task("t"))(t)
		must.CheckIs(t, task.Cancel(t.Context()), errors.ErrUnsupported)
		out.wants(t, "tasks/cancel", 0)
	})
}

// basic/utilities/cancellation of 2025-11-25: for task-augmented requests, tasks/cancel MUST be used instead
// of notifications/cancelled. The client waits for the id of the task for a second.
func TestEndOfContextCancelsTheTaskThatIsBeingCreated(t *testing.T) {
	for name, tc := range map[string]struct {
		after   time.Duration // delay of the response
		cancels int
		took    time.Duration
		id      string // the ID in the error
	}{
		"in time":  {5500 * time.Millisecond, 1, 5500 * time.Millisecond, "t"},
		"too late": {7 * time.Second, 0, 6 * time.Second, ""},
	} {
		for _, start := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s/StartTool %t", name, start), func(t *testing.T) {
				s := sessionTasks(mcp.TaskRequired, sessionState("working"))
				s.After = map[string]time.Duration{"tools/call": tc.after}
				var notified []string
				c, out := dialTask(t, func(d *client.Dialer) {
					inSession(d)
					trace := d.Trace
					d.Trace = func(sent bool, raw []byte) {
						trace(sent, raw)
						if sent && strings.Contains(string(raw), "notifications/cancelled") {
							notified = append(notified, string(raw))
						}
					}
				}, s)
				names(t, c)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				began := time.Now()
				var err error
				if start {
					_, err = c.StartTool(ctx, "a", nil)
				} else {
					_, err = c.CallTool(ctx, "a", nil)
				}
				took := time.Since(began)
				var unknown *client.TaskError
				errors.As(err, &unknown)
				must.CheckThat(t, errors.Is(err, context.DeadlineExceeded) && took == tc.took &&
					(unknown == nil) == (tc.id == "") && (unknown == nil || unknown.ID == tc.id),
					"%v after %v, want the id %q after %v", err, took, tc.id, tc.took)
				time.Sleep(5 * time.Second) // a later response has no effect
				if got := len(out.of("tasks/cancel")); got != tc.cancels || len(notified) != 0 {
					t.Errorf("%d requests to cancel, want %d; %q", got, tc.cancels, notified)
				}
			})
		}
	}
}

func TestOlderRevisionsHaveNoTasks(t *testing.T) {
	c, out := dialTask(t, nil, legacyServer())
	task := must.Get(c.Task("t"))(t)
	must.CheckIs(t, must.Err(task.Wait(t.Context())), errors.ErrUnsupported)
	for _, id := range []string{"", strings.Repeat("x", 4097)} {
		_, err := c.Task(id)
		must.CheckThat(t, err != nil, "Task accepts an id with %d bytes", len(id))
	}
	out.wants(t, "tasks/get", 0)
}
