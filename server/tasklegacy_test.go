package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The comments of these tests name sections of 2025-11-25, basic/utilities/tasks.

// Tool-Level Negotiation: the server SHOULD return -32601 for a task of a tool that forbids it, and MUST
// return -32601 for a call of a tool that requires it without a task.
func TestTaskSupportOfToolsIsEnforced(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		for _, tool := range []string{"plain", "never"} {
			p.wantError(mcp.MethodCallTool, fmt.Sprintf(`"name":%q,"task":{}`, tool), jsonrpc.CodeMethodNotFound,
				"does not run as a task")
		}
		p.wantError(mcp.MethodCallTool, `"name":"only"`, jsonrpc.CodeMethodNotFound, "runs only as a task")
		for _, members := range []string{`"name":"plain"`, `"name":"quick"`} {
			must.CheckContains(t, string(p.must(mcp.MethodCallTool, members)), "done", members)
		}
		for _, tool := range []string{"quick", "only"} {
			p.outcome(p.create(tool).TaskID, mcp.TaskCompleted)
		}
	})
	onWires(t, mcp.V20260728, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		r := w.connect(t, s).must(mcp.MethodCallTool, `"name":"never"`)
		must.CheckContains(t, string(r), `"resultType":"complete"`, "a tool that never runs as a task", r)
	})
	// Revisions without tasks cannot call a tool that requires one, and ignore params.task.
	newServer := func() *server.Server { s, _ := taskServer(); return s }
	onEverySurface(t, newServer, func(t *testing.T, s surface) {
		if s.revision == mcp.V20251125 || s.revision.Modern() {
			return
		}
		must.CheckContains(t, s.ask(1, mcp.MethodCallTool, `"name":"only"`), `"code":-32601`)
		r := s.ask(2, mcp.MethodCallTool, `"name":"quick","task":{}`)
		must.CheckThat(t, strings.Contains(r, `"text":"done"`) && !strings.Contains(r, "taskId"), "params.task: %s", r)
		for id, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodTaskResult,
			mcp.MethodListTasks, mcp.MethodUpdateTask} {
			must.CheckContains(t, s.ask(3+id, method, `"taskId":"x"`), `"code":-32601`, method)
		}
	})
}

// Task Status Lifecycle: tasks MUST begin in the working status. TTL and Resource Management: createdAt,
// lastUpdatedAt and the actual ttl MUST be in task responses; the server may override the requested ttl.
// Task ID Requirements: ids MUST be unique strings.
func TestTaskHasTheTTLThatTheServerAllows(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		seen := make(map[string]bool)
		for task, want := range map[string]int64{
			`{}`: 3_600_000, `{"ttl":1}`: 1000, `{"ttl":999}`: 1000, `{"ttl":1001}`: 1001, `{"ttl":60000}`: 60_000,
			`{"ttl":1e4}`: 10_000, `{"ttl":null}`: 3_600_000,
			`{"ttl":86400000}`: 3_600_000, `{"ttl":9007199254740991}`: 3_600_000, `{"unknown":1}`: 3_600_000,
		} {
			created := p.created(p.must(mcp.MethodCallTool, `"name":"work","task":`+task))
			for _, s := range []taskState{created, p.get(created.TaskID)} {
				must.CheckThat(t, s.Status == mcp.TaskWorking && s.TTL != nil && *s.TTL == want &&
					!s.CreatedAt.IsZero() && !s.LastUpdatedAt.Before(s.CreatedAt),
					"task %s: %s, want ttl %d", task, s.raw, want)
			}
			must.CheckThat(t, !seen[created.TaskID], "id %s is not unique", created.TaskID)
			seen[created.TaskID] = true
		}
		for _, task := range []string{`[]`, `"x"`, `{"ttl":0}`, `{"ttl":-1}`, `{"ttl":"1"}`, `{"ttl":1.5}`} {
			p.wantError(mcp.MethodCallTool, `"name":"work","task":`+task, jsonrpc.CodeInvalidParams, "params.task")
		}
	})
}

// Input Required Status: the task moves to input_required, and back. The request MUST have the related
// task. Related Task Metadata: the taskId of tasks/get, tasks/result and tasks/cancel is the source of
// truth, and their results SHOULD NOT have the metadata.
func TestTaskResultCarriesTheQuestionsOfTheTask(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		id := p.create("chat").TaskID
		var asked atomic.Int64
		p.answer = func(m *jsonrpc.Message) string {
			raw := string(m.Params.Raw())
			must.CheckContains(t, raw, fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}`,
				id), "no related task")
			return acceptName(fmt.Sprint("guest ", asked.Add(1)))
		}
		p.until(id, mcp.TaskInputRequired)
		const other = `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"other"}}`
		if raw := p.must(mcp.MethodGetTask, taskMembers(id)+other); strings.Contains(string(raw), mcp.MetaRelatedTask) {
			t.Errorf("tasks/get: %s", raw)
		}
		must.CheckEqual(t, asked.Load(), 0)
		r := p.must(mcp.MethodTaskResult, taskMembers(id)+other)
		must.CheckContains(t, string(r), "guest 3", r)
		must.CheckEqual(t, asked.Load(), 3, r)
		id = p.create("work").TaskID
		raw := p.must(mcp.MethodCancelTask, taskMembers(id)+other)
		must.CheckThat(t, !strings.Contains(string(raw), mcp.MetaRelatedTask), "tasks/cancel: %s", raw)
	})
}

// Input Required Status: a question is sent once, however many tasks/result requests there are, and again
// if the session to which it was sent ends without an answer.
func TestQuestionIsAskedOnOneStream(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		if w.http {
			askOnOneStream(t, w, func() {})
			return
		}
		synctest.Test(t, func(t *testing.T) { askOnOneStream(t, w, synctest.Wait) })
	})
}

// askOnOneStream calls wait before it counts what was not sent.
func askOnOneStream(t *testing.T, w taskWire, wait func()) {
	s, _ := taskServer()
	s.Limits.Grace = time.Millisecond // of the requests of a closed connection
	p, q := w.connect(t, s), w.connect(t, s)
	id := p.create("ask").TaskID
	asked := make(chan struct{}, 9)
	p.answer = func(*jsonrpc.Message) string { asked <- struct{}{}; return "" }
	var again atomic.Int64
	q.answer = func(*jsonrpc.Message) string { again.Add(1); return acceptName("Ada") }
	p.start(mcp.MethodTaskResult, taskMembers(id))
	<-asked
	waiting := q.start(mcp.MethodTaskResult, taskMembers(id))
	wait()
	if s := q.get(id); again.Load() != 0 {
		t.Errorf("asked twice: %s", s.raw)
	}
	p.close()
	if r := q.await(waiting); !strings.Contains(r.raw, "Hello, Ada") || again.Load() != 1 || len(asked) != 0 {
		t.Errorf("asked %d times: %s", again.Load(), r.raw)
	}
	shutdownNow(t, s)
}

// The server must only use capabilities that the client of the session has declared (basic/lifecycle,
// Operation). Result Retrieval: tasks/result MUST block meanwhile; another client may answer.
func TestQuestionIsSentOnlyToClientsThatCanAnswer(t *testing.T) {
	tools := map[string]func(ctx context.Context) error{
		"form": func(ctx context.Context) error { _, err := server.Elicit[nameForm](ctx, "Who?"); return err },
		"url": func(ctx context.Context) error {
			return server.ElicitURL(ctx, "https://example.com/", "Log in", nil)
		},
		"model": func(ctx context.Context) error {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{}})
			return err
		},
		"model with tools": func(ctx context.Context) error {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{},
				Tools: []mcp.Tool{{Name: "x", InputSchema: []byte(`{"type":"object"}`)}}})
			return err
		},
		"roots": func(ctx context.Context) error { _, err := server.Roots(ctx); return err },
	}
	const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`
	for tool, missing := range map[string]string{
		"form":  `{"elicitation":{"url":{}},"sampling":{"tools":{}},"roots":{}}`,
		"url":   `{"elicitation":{"form":{}},"sampling":{"tools":{}},"roots":{}}`,
		"model": `{"elicitation":{},"roots":{}}`, "model with tools": `{"elicitation":{},"sampling":{},"roots":{}}`,
		"roots": `{"elicitation":{},"sampling":{"tools":{}}}`,
	} {
		t.Run(tool, func(t *testing.T) {
			onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
				s := quiet()
				server.AddTool(s, newTool("ask"), func(ctx context.Context, _ struct{}) (string, error) {
					return "answered", tools[tool](ctx)
				}, server.AsTask(server.TaskOptions{}))
				w.declared = everything
				p := w.connect(t, s)
				id := p.create("ask").TaskID
				p.until(id, mcp.TaskInputRequired)
				w.declared = missing
				q := w.connect(t, s) // fails the test if it gets a question
				waiting := q.start(mcp.MethodTaskResult, taskMembers(id))
				q.get(id)
				select {
				case r := <-waiting:
					t.Fatalf("before an answer: %s", r.raw)
				default:
				}
				p.answer = func(m *jsonrpc.Message) string {
					switch m.Method {
					case mcp.MethodListRoots:
						return `{"roots":[]}`
					case mcp.MethodCreateMessage:
						return `{"role":"assistant","model":"m","content":{"type":"text","text":"42"}}`
					}
					return acceptName("Ada")
				}
				p.must(mcp.MethodTaskResult, taskMembers(id))
				must.CheckContains(t, q.await(waiting).raw, "answered")
			})
		})
	}
}

// Input Required Status: an error of the client ends the question, not the task.
func TestTaskSeesTheErrorOfItsQuestion(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		p.answer = func(*jsonrpc.Message) string { return `error:{"code":-32603,"message":"the screen is off"}` }
		r := p.ask(mcp.MethodTaskResult, taskMembers(p.create("ask").TaskID))
		must.CheckThat(t, r.err == nil && strings.Contains(r.raw, "the screen is off") &&
			strings.Contains(r.raw, `"isError":true`), "%s", r.raw)
	})
}

// Task Cancellation: the task MUST be cancelled before the response, and stays cancelled. An ended task
// MUST be rejected with -32602. Result Retrieval: tasks/result of a cancelled task is an error.
func TestLegacyCancelEndsTheTaskBeforeTheResponse(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, jobs := taskServer()
		p := w.connect(t, s)
		id := p.create("work").TaskID
		j := <-jobs
		waiting := p.start(mcp.MethodTaskResult, taskMembers(id))
		if s := p.decode(p.must(mcp.MethodCancelTask, taskMembers(id))); s.Status != mcp.TaskCancelled {
			t.Errorf("the response has %s", s.raw)
		}
		<-j.ctx.Done()
		<-j.ended
		r := p.await(waiting)
		must.CheckThat(t, r.err != nil && strings.Contains(r.err.Message, "cancelled"), "tasks/result: %s", r.raw)
		if s := p.get(id); s.Status != mcp.TaskCancelled {
			t.Errorf("later: %s", s.raw)
		}
		ended := map[string]string{"cancelled": id}
		for tool, status := range map[string]mcp.TaskStatus{"quick": mcp.TaskCompleted, "broken": mcp.TaskFailed,
			"fail": mcp.TaskFailed} {
			id := p.create(tool).TaskID
			p.until(id, status)
			ended[tool] = id
		}
		for name, id := range ended {
			before := p.get(id).raw
			p.wantError(mcp.MethodCancelTask, taskMembers(id), jsonrpc.CodeInvalidParams, "cannot cancel the task")
			must.CheckEqual(t, p.get(id).raw, before, name)
		}
	})
}

// Task Listing: the result MUST have a nextCursor if there are more tasks; every task that tasks/get
// returns MUST be listed. Protocol Errors: an invalid cursor is -32602. Security Considerations: the list
// MUST have only the tasks of the client's authorization context; the server rejects clients without one.
func TestTaskListHasTheTasksOfTheCaller(t *testing.T) {
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		if w.http {
			authenticated(s)
		}
		ada, bob := w.connect(t, s, "ada"), w.connect(t, s, "bob")
		own := make(map[string]bool)
		for range 120 {
			own[ada.create("quick").TaskID] = true
		}
		other := bob.create("quick").TaskID
		pages := 0
		for cursor := ""; ; {
			pages++
			raw := ada.must(mcp.MethodListTasks, cursor)
			var list mcp.ListTasksResult
			err := json.Unmarshal(raw, &list)
			must.That(t, err == nil && !strings.Contains(string(raw), mcp.MetaRelatedTask), "%s: %v", raw, err)
			for _, task := range list.Tasks {
				must.CheckThat(t, own[task.TaskID], "task %s is listed twice, or belongs to another principal (%s)",
					task.TaskID, other)
				delete(own, task.TaskID)
			}
			if list.NextCursor == nil {
				break
			}
			cursor = fmt.Sprintf(`"cursor":%q`, *list.NextCursor)
			bob.wantError(mcp.MethodListTasks, cursor, jsonrpc.CodeInvalidParams, "cursor")
		}
		must.CheckThat(t, len(own) == 0 && pages >= 2, "%d tasks are not listed on %d pages", len(own), pages)
		ada.wantError(mcp.MethodListTasks, `"cursor":"unknown"`, jsonrpc.CodeInvalidParams, "cursor")
		must.CheckContains(t, string(bob.must(mcp.MethodListTasks, "")), other)
	})
	onWires(t, mcp.V20251125, func(t *testing.T, w taskWire) {
		s, _ := taskServer()
		p := w.connect(t, s)
		p.create("quick")
		p.wantError(mcp.MethodListTasks, "", jsonrpc.CodeMethodNotFound, "authentication")
	})
}

// Input Required Status: the server SHOULD NOT upgrade to an SSE stream in response to tasks/get.
func TestTaskStateIsNoEventStream(t *testing.T) {
	s, _ := taskServer()
	p := taskWire{revision: mcp.V20251125, http: true}.connect(t, s)
	id := p.create("ask").TaskID
	p.until(id, mcp.TaskInputRequired)
	for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask} {
		r := p.ask(method, taskMembers(id))
		must.CheckThat(t, !r.events && r.err == nil, "%s: event stream %t, %s", method, r.events, r.raw)
	}
}

// Audit and Logging of 2025-11-25, basic/utilities/tasks: the creation, the end and the retrieval of tasks
// SHOULD be logged, with the authorization context.
func TestChangesOfTasksAreLogged(t *testing.T) {
	for _, who := range []string{"", "ada"} {
		onTaskWires(t, func(t *testing.T, w taskWire) {
			if who != "" && !w.http {
				return
			}
			var log syncbuffer.Buffer
			s := quiet()
			s.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if who != "" {
				authenticated(s)
			}
			server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, in nameForm) (string, error) {
				_, err := server.Elicit[nameForm](ctx, "canary question")
				return "canary result", errors.Join(err, server.Progress(ctx, 1, 2, "canary progress"))
			}, server.AsTask(server.TaskOptions{}))
			p := w.connect(t, s, strings.Fields(who)...)
			p.answer = func(*jsonrpc.Message) string { return acceptName("canary answer") }
			id := p.created(p.must(mcp.MethodCallTool, p.taskCall("greet", `"name":"canary argument"`))).TaskID
			s1 := p.until(id, mcp.TaskInputRequired)
			for key := range s1.InputRequests {
				p.update(id, fmt.Sprintf(`{%q:%s}`, key, acceptName("canary answer")))
			}
			if !w.revision.Modern() {
				p.must(mcp.MethodTaskResult, taskMembers(id))
			} else {
				p.until(id, mcp.TaskCompleted)
			}

			want := []string{"INFO task created", "DEBUG task requests input", "DEBUG task received input",
				"INFO task ended", "DEBUG task outcome retrieved"}
			// A client can see a change in the store before the server logs it.
			eventually(t, func() bool { return strings.Count(log.String(), `"msg":"task `) >= len(want) })
			var events []string
			principal := "anonymous"
			if who != "" {
				principal = digest.Of(person(t, who).Key())[:16]
			}
			for line := range strings.Lines(log.String()) {
				var record map[string]any
				must.Do(t, json.Unmarshal([]byte(line), &record))
				text, _ := record["msg"].(string)
				if !strings.HasPrefix(text, "task ") {
					continue
				}
				events = append(events, fmt.Sprint(record["level"], " ", text))
				must.CheckThat(t, record["task"] == digest.Of(id)[:16] && record["principal"] == principal,
					"%s, want the principal %s", line, principal)
			}
			slices.Sort(want)
			slices.Sort(events)
			must.CheckThat(t, slices.Equal(events, want) && strings.Contains(log.String(), `"tool":"greet"`) &&
				strings.Contains(log.String(), `"status":"completed"`), "%q, want %q", events, want)
			must.CheckThat(t, !strings.Contains(log.String(), "canary") && !strings.Contains(log.String(), id),
				"secrets in %s", log.String())
		})
	}
}
