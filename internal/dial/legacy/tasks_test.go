package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The client as the receiver of task-augmented requests. The comments name sections of 2025-11-25,
// basic/utilities/tasks.

// taskReceiver is a client whose server sends raw messages. The client answers a question when the test
// sends a value to answers.
type taskReceiver struct {
	*Client
	t       *testing.T
	wire    *wire
	answers chan string // the answer, or an error if it begins with "error:"
	asked   chan context.Context
}

func newTaskReceiver(t *testing.T, declared *mcp.TasksCapability, revision mcp.Revision) *taskReceiver {
	t.Helper()
	r := &taskReceiver{t: t, answers: make(chan string, 100), asked: make(chan context.Context, 100)}
	answerer := func(ctx context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
		r.asked <- ctx
		select {
		case text := <-r.answers:
			if message, ok := strings.CutPrefix(text, "error:"); ok {
				return nil, jsonrpc.Errorf(-32099, "%s", message)
			}
			return json.RawMessage(text), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	r.Client, r.wire = newClient(t, answerer, func(_ context.Context, out *outbound.Outgoing) (string, error) {
		if out.Method != mcp.MethodInitialize {
			return "", nil
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":%q,"capabilities":{},`+
			`"serverInfo":{"name":"s","version":"1"}}}`, revision), nil
	})
	r.wire.sent = make(chan string, 1000)
	must.Do(t, must.Err(r.Handshake(t.Context(), mcp.V20251125, mcp.Implementation{Name: "c", Version: "1"},
		mcp.ClientCapabilities{Tasks: declared}, &outbound.Request{})))
	<-r.wire.sent
	<-r.wire.sent
	return r
}

var declaredTasks = &mcp.TasksCapability{List: &mcp.Supported{}, Cancel: &mcp.Supported{},
	Requests: &mcp.TaskRequestsCapability{
		Elicitation: &mcp.TaskElicitationCapability{Create: &mcp.Supported{}},
		Sampling:    &mcp.TaskSamplingCapability{CreateMessage: &mcp.Supported{}},
	}}

// send sends a request as the server.
func (r *taskReceiver) send(id int, method, params string) {
	r.t.Helper()
	r.Receive(parseMessage(r.t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params)))
}

// receive returns the client's next message, which must be valid.
func (r *taskReceiver) receive(method string) string {
	r.t.Helper()
	text := <-r.wire.sent
	must.Check(r.t, spec.ValidateMessage(mcp.V20251125, []byte(text), method))
	return text
}

// ask sends a request and returns the response.
func (r *taskReceiver) ask(id int, method, params string) string {
	r.t.Helper()
	r.send(id, method, params)
	return r.receive(method)
}

const (
	formParams = `"message":"?","requestedSchema":{"type":"object","properties":{}}`
	accept     = `{"action":"accept","content":{}}`
)

// create creates a task and returns its id.
func (r *taskReceiver) create(id int, task string) string {
	r.t.Helper()
	response := r.ask(id, mcp.MethodElicit, formParams+`,"task":`+task)
	_, rest, _ := strings.Cut(response, `"task":{"taskId":"`)
	taskID, _, ok := strings.Cut(rest, `"`)
	must.That(r.t, ok, "no task: %s", response)
	<-r.asked
	return taskID
}

func about(id string) string { return fmt.Sprintf(`"taskId":%q`, id) }

func (r *taskReceiver) want(response string, words ...string) {
	r.t.Helper()
	for _, w := range words {
		must.CheckContains(r.t, response, w)
	}
}

// Result Retrieval: the receiver MUST return a CreateTaskResult, as soon as possible. Task Status
// Lifecycle: tasks MUST begin as working. TTL and Resource Management: createdAt, lastUpdatedAt and the
// actual ttl MUST be in the responses; limits of the ttl SHOULD be enforced. Task ID Requirements: ids
// MUST be unique strings with enough entropy. Related Task Metadata: the response MUST contain it.
func TestClientCreatesATaskBeforeItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		seen := make(map[string]bool)
		i := 1
		for task, ttl := range map[string]int64{
			`{}`: 86_400_000, `{"ttl":1000}`: 1000, `{"ttl":null}`: 86_400_000, `{"ttl":99999999999}`: 86_400_000,
		} {
			response := r.ask(i, mcp.MethodElicit, formParams+`,"task":`+task)
			var message struct {
				Result struct {
					Meta map[string]mcp.RelatedTask `json:"_meta"`
					Task mcp.LegacyTask             `json:"task"`
				}
			}
			must.Do(t, json.Unmarshal([]byte(response), &message))
			created := message.Result.Task
			now := time.Now().UTC().Format(time.RFC3339Nano)
			must.CheckThat(t, created.Status == mcp.TaskWorking && *created.TTL == ttl && created.CreatedAt == now &&
				created.LastUpdatedAt == now && len(created.TaskID) >= 26 && !seen[created.TaskID] &&
				message.Result.Meta[mcp.MetaRelatedTask].TaskID == created.TaskID, "task %s: %s", task, response)
			seen[created.TaskID] = true
			i++
		}
		for _, task := range []string{`7`, `[]`, `{"ttl":0}`, `{"ttl":"1"}`} {
			r.want(r.ask(i, mcp.MethodElicit, formParams+`,"task":`+task), `"code":-32602`, "params.task")
			i++
		}
	})
}

// Task Support and Handling: a receiver that does not declare the capability for a type of request MUST
// process it normally and ignore the metadata.
func TestClientIgnoresRequestsForTasksThatItHasNotDeclared(t *testing.T) {
	sampling := &mcp.TasksCapability{Requests: &mcp.TaskRequestsCapability{Sampling: declaredTasks.Requests.Sampling}}
	for name, tc := range map[string]struct {
		declared *mcp.TasksCapability
		revision mcp.Revision
	}{
		"none": {nil, mcp.V20251125}, "other requests": {sampling, mcp.V20251125},
		"no requests":       {&mcp.TasksCapability{}, mcp.V20251125},
		"an older revision": {declaredTasks, mcp.V20250618},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTaskReceiver(t, tc.declared, tc.revision)
			r.answers <- accept
			must.CheckContains(t, r.ask(1, mcp.MethodElicit, formParams+`,"task":{"ttl":1000}`), `"result":`+accept)
		})
	}
}

// Result Retrieval: tasks/result MUST block until the task has ended, and MUST return exactly what the
// request would have returned. Related Task Metadata: its result MUST contain it; the results of
// tasks/get, tasks/list and tasks/cancel SHOULD NOT; a related task in these requests MUST be ignored.
// Task Notifications: notifications/tasks/status SHOULD NOT contain it.
func TestOutcomeOfAClientTaskIsThatOfTheRequest(t *testing.T) {
	const other = `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"other"}}`
	for name, tc := range map[string]struct{ answer, status, result string }{
		"accepted": {accept, "completed", `"action":"accept","content":{}}`},
		"declined": {`{"action":"decline"}`, "completed", `"action":"decline"}`},
		"failed":   {"error:the screen is off", "failed", `"error":{"code":-32099,"message":"the screen is off"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
				id := r.create(1, `{}`)
				state := r.ask(2, mcp.MethodGetTask, about(id)+other)
				r.want(state, `"status":"working"`, about(id))
				r.send(3, mcp.MethodTaskResult, about(id)+other)
				synctest.Wait()
				if len(r.wire.sent) != 0 {
					t.Errorf("before the end: %s", <-r.wire.sent)
				}
				time.Sleep(time.Second)
				r.answers <- tc.answer
				var notified, outcome string
				for range 2 {
					if text := r.receive(mcp.MethodTaskResult); strings.Contains(text, mcp.NotificationTaskStatus) {
						notified = text
					} else {
						outcome = text
					}
				}
				r.want(notified, `"status":"`+tc.status+`"`, about(id))
				r.want(outcome, tc.result)
				if related := `"_meta":{"io.modelcontextprotocol/related-task":{` + about(id) + `}}`; name != "failed" {
					r.want(outcome, related)
				} else {
					r.want(notified, `"statusMessage":"the screen is off"`)
				}
				ended := r.ask(4, mcp.MethodGetTask, about(id)+other)
				r.want(ended, `"status":"`+tc.status+`"`)
				if created, updated := timesOf(t, ended); !updated.Equal(created.Add(time.Second)) {
					t.Errorf("%s: lastUpdatedAt must be that of the end", ended)
				}
				again := r.ask(5, mcp.MethodTaskResult, about(id))
				must.CheckEqual(t, strings.Replace(again, `"id":5`, `"id":3`, 1), outcome, again)
				// Task Cancellation: cancelling a task that has ended MUST be rejected, and the task does not
				// change.
				r.want(r.ask(6, mcp.MethodCancelTask, about(id)), `"code":-32602`, "cannot cancel the task")
				list := r.ask(7, mcp.MethodListTasks, "")
				r.want(list, about(id), `"status":"`+tc.status+`"`)
				all := state + notified + ended + list
				must.CheckThat(t, !strings.Contains(all, mcp.MetaRelatedTask), "a related task in %s", all)
			})
		})
	}
}

func timesOf(t *testing.T, response string) (created, updated time.Time) {
	t.Helper()
	var m struct{ Result mcp.LegacyTask }
	must.Do(t, json.Unmarshal([]byte(response), &m))
	var err1, err2 error
	created, err1 = time.Parse(time.RFC3339Nano, m.Result.CreatedAt)
	updated, err2 = time.Parse(time.RFC3339Nano, m.Result.LastUpdatedAt)
	must.Do(t, errors.Join(err1, err2))
	return created, updated
}

// Task Cancellation: the client SHOULD stop the work, MUST make the task cancelled before the response,
// and the task MUST remain cancelled.
func TestClientCancelsItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		response := r.ask(1, mcp.MethodElicit, formParams+`,"task":{}`)
		_, rest, _ := strings.Cut(response, `"taskId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		ctx := <-r.asked
		r.send(2, mcp.MethodTaskResult, about(id))
		r.send(3, mcp.MethodCancelTask, about(id))
		<-ctx.Done()
		synctest.Wait()
		replies := []string{<-r.wire.sent, <-r.wire.sent}
		slices.Sort(replies)
		r.want(replies[0], `"id":2`, `"error"`, "cancelled")
		r.want(replies[1], `"id":3`, `"status":"cancelled"`)
		synctest.Wait()
		r.want(r.ask(4, mcp.MethodGetTask, about(id)), `"status":"cancelled"`)
		if len(r.wire.sent) != 0 {
			t.Errorf("more: %s", <-r.wire.sent)
		}
	})
}

// Protocol Errors: an invalid or nonexistent taskId or cursor MUST be -32602.
func TestUnknownTaskOfAClientIsInvalid(t *testing.T) {
	r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
	i := 0
	for _, method := range []string{mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodCancelTask} {
		for _, params := range []string{about("unknown"), about(""), `"taskId":7`, ``} {
			i++
			r.want(r.ask(i, method, params), `"code":-32602`)
		}
	}
	for _, cursor := range []string{`"x"`, `""`, `"-1"`, `"99"`, `7`} {
		i++
		r.want(r.ask(i, mcp.MethodListTasks, `"cursor":`+cursor), `"code":-32602`)
	}
}

// Task Listing: a nextCursor MUST be there if there are more tasks, and every task that tasks/get returns
// MUST be listed. Resource Management: concurrent tasks SHOULD be limited, and expired tasks removed.
func TestTasksOfAClientAreListedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		known := make(map[string]bool)
		for i := range maxClientTasks {
			response := r.ask(i, mcp.MethodElicit, formParams+`,"task":{"ttl":60000}`)
			_, rest, _ := strings.Cut(response, `"taskId":"`)
			id, _, _ := strings.Cut(rest, `"`)
			known[id] = true
		}
		r.want(r.ask(100, mcp.MethodElicit, formParams+`,"task":{}`), `"error"`, "tasks of the client")
		pages := 0
		for cursor := ""; ; pages++ {
			var page struct{ Result mcp.ListTasksResult }
			must.Do(t, json.Unmarshal([]byte(r.ask(101+pages, mcp.MethodListTasks, cursor)), &page))
			for _, task := range page.Result.Tasks {
				must.CheckThat(t, known[task.TaskID], "task %s is listed twice", task.TaskID)
				delete(known, task.TaskID)
			}
			if page.Result.NextCursor == nil {
				break
			}
			cursor = fmt.Sprintf(`"cursor":%q`, *page.Result.NextCursor)
		}
		must.CheckEqual(t, len(known), 0, pages+1)
		must.CheckEqual(t, pages, 2, pages+1)
		r.answers <- accept // one of them ends and makes room for another
		r.want(r.receive(""), `"status":"completed"`)
		ended := r.ask(200, mcp.MethodListTasks, "")
		r.want(ended, `"status":"completed"`)
		r.want(r.ask(201, mcp.MethodElicit, formParams+`,"task":{"ttl":90000}`), `"working"`)
		if list := r.ask(202, mcp.MethodListTasks, ""); strings.Contains(list, `"completed"`) {
			t.Errorf("%s", list)
		}
		time.Sleep(61 * time.Second)
		list := r.ask(203, mcp.MethodListTasks, "")
		must.CheckEqual(t, strings.Count(list, `"taskId"`), 1, list)
	})
}

// TTL and Resource Management: the client deletes a task after its ttl, regardless of its status. A
// tasks/result that waits for it ends.
func TestTaskOfAClientExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		response := r.ask(1, mcp.MethodElicit, formParams+`,"task":{"ttl":2000}`)
		_, rest, _ := strings.Cut(response, `"taskId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		ctx := <-r.asked
		r.send(2, mcp.MethodTaskResult, about(id))
		time.Sleep(1999 * time.Millisecond)
		r.want(r.ask(3, mcp.MethodGetTask, about(id)), `"status":"working"`)
		time.Sleep(2 * time.Millisecond)
		r.want(r.receive(mcp.MethodTaskResult), `"id":2`, `"code":-32602`)
		must.CheckEqual(t, context.Cause(ctx), errTaskExpired)
		r.want(r.ask(4, mcp.MethodGetTask, about(id)), `"code":-32602`)
	})
}

// A server may give up on tasks/result and ask again.
func TestCancelledRequestForAResultDoesNotEndTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		id := r.create(1, `{}`)
		r.send(2, mcp.MethodTaskResult, about(id))
		r.want(r.ask(2, mcp.MethodTaskResult, about(id)), `"error"`) // the id is in use
		r.Receive(parseMessage(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`))
		synctest.Wait()
		if len(r.wire.sent) != 0 {
			t.Errorf("%s", <-r.wire.sent)
		}
		r.want(r.ask(3, mcp.MethodGetTask, about(id)), `"status":"working"`)
		r.answers <- accept
		r.want(r.receive(""), `"status":"completed"`)
		r.want(r.ask(4, mcp.MethodTaskResult, about(id)), `"action":"accept"`)
	})
}

// The task ends with the connection, and so does its handler.
func TestCloseEndsTheTasksOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		r.send(1, mcp.MethodElicit, formParams+`,"task":{}`)
		ctx := <-r.asked
		r.Close()
		if ctx.Err() == nil || len(r.tasks.all) != 0 {
			t.Errorf("context %v, tasks %v", ctx.Err(), r.tasks.all)
		}
	})
}

// A request of the client that waits for the server does not time out while the server waits for a
// task of the client. Requests that begin later do.
func TestTaskOfAClientPausesTheTimeoutsOfEarlierRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTaskReceiver(t, declaredTasks, mcp.V20251125)
		call := func() chan error {
			done := make(chan error, 1)
			go func() {
				_, err := r.Call(t.Context(), &outbound.Request{Method: mcp.MethodCallTool,
					Params:  []byte(`{"name":"a"}`),
					Timeout: time.Minute})
				done <- err
			}()
			return done
		}
		earlier := call()
		r.receive("")
		r.create(1, `{}`)
		later := call()
		time.Sleep(time.Hour)
		must.CheckEqual(t, len(earlier), 0, len(earlier) == 1, len(later) == 1)
		must.CheckEqual(t, len(later), 1, len(earlier) == 1, len(later) == 1)
		r.answers <- accept
		time.Sleep(time.Minute + time.Second)
		err := <-earlier
		must.CheckThat(t, err != nil, "the request does not time out after the task")
	})
}

// The client tracks accepted elicitations after their requests for a limited time, and drops one when there are too
// many.
func TestLateURLElicitationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e urlElicitations
		reported := 0
		keep := func(id string) {
			o := e.add(id)
			must.That(t, o != nil, "elicitation %s is not tracked", id)
			o.accepted = true
			o.completion.Then(func() { reported++ })
			o.end()
		}
		for i := range maxURLElicitations + 1 {
			keep(fmt.Sprint(i))
		}
		must.CheckEqual(t, len(e.open), maxURLElicitations)
		newest := fmt.Sprint(maxURLElicitations)
		if o := e.done(newest); o == nil {
			t.Error("the newest elicitation is not tracked")
		} else if o.completion.Report(); reported != 1 {
			t.Errorf("%d completions reported, want 1", reported)
		}
		time.Sleep(lateTime + time.Second)
		synctest.Wait()
		must.CheckEqual(t, len(e.open), 0)
		e.close()
		o := e.add("after the end")
		o.accepted = true
		o.completion.Then(func() {})
		if o.end(); len(e.open) != 0 {
			t.Error("an elicitation is tracked after the end of the client")
		}
	})
}

// A completion may arrive on another stream, before the error that requires its elicitation.
func TestEarlyElicitationCompletionsCount(t *testing.T) {
	var v urlElicitations
	for i := range 2 * maxEarly {
		v.done(fmt.Sprint(i))
	}
	v.done(strings.Repeat("x", maxEarlyID+1))
	for id, early := range map[string]bool{"0": false, fmt.Sprint(maxEarly): true, fmt.Sprint(2*maxEarly - 1): true} {
		for n := range 2 { // once
			o := v.add(id)
			select {
			case <-o.done:
				must.CheckThat(t, early && n <= 0, "elicitation %s is complete", id)
			default:
				must.CheckThat(t, !early || n != 0, "elicitation %s is not complete", id)
			}
			o.end()
		}
	}
}
