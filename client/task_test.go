package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Fields of responses about tasks, in 2026-07-28.

const taskTimes = `"createdAt":"2026-07-28T10:00:00Z","lastUpdatedAt":"2026-07-28T10:00:00Z"`

// created is the response to a tools/call that runs as a task; members are additional fields.
func created(members string) string {
	return `"result":{"resultType":"task",` + taskTimes + `,` + members + `}`
}

// state is the response to a tasks/get about the task "t".
func state(status, members string) string {
	if members != "" {
		members = "," + members
	}
	return `"result":{"resultType":"complete","taskId":"t","status":"` + status + `",` + taskTimes + `,"ttlMs":null` +
		members + `}`
}

const (
	working   = `"taskId":"t","status":"working","ttlMs":null`
	outcome   = `"result":{"content":[{"type":"text","text":"called"}]}`
	ack       = `"result":{"resultType":"complete"}`
	forgotten = `"error":{"code":-32602,"message":"no such task"}`
)

// needs is a tasks/get response of a task with input requests for a form, with the given keys.
func needs(keys ...string) string {
	var all []string
	for _, key := range keys {
		all = append(all, `"`+key+`":{"method":"elicitation/create","params":{"mode":"form","message":"`+key+
			`","requestedSchema":{"type":"object","properties":{}}}}`)
	}
	return state("input_required", `"inputRequests":{`+strings.Join(all, ",")+`}`)
}

// taskServer returns a server whose tool runs as a task with the given states.
func taskServer(states ...string) *script {
	s := modernServer()
	s.Answers["tools/call"] = []string{created(working)}
	s.Answers["tasks/get"] = states
	s.Answers["tasks/update"], s.Answers["tasks/cancel"] = []string{ack}, []string{ack}
	return s
}

// The text and the examples of the extension differ: a state can have the resultType "task", and the result in it can
// have a resultType.
func TestResultTypesInTasksAreRead(t *testing.T) {
	complete := strings.Replace(outcome, "{", `{"resultType":"complete",`, 1)
	for name, end := range map[string]string{
		"complete": state("completed", complete), "none": state("completed", outcome),
		"task": strings.Replace(state("completed", complete), `"resultType":"complete"`, `"resultType":"task"`, 1),
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := dialTask(t, nil, taskServer(end))
			result := must.Get(c.CallTool(t.Context(), "a", nil))(t)
			must.CheckEqual(t, len(result.Content), 1, name, result)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := taskServer()
		s.Answers["tasks/cancel"] = []string{strings.Replace(ack, "complete", "task", 1)}
		c, _ := dialTask(t, nil, s)
		task := must.Get(c.StartTool(t.Context(), "a", nil))(t)
		must.CheckIs(t, task.Cancel(t.Context()), call.ErrInvalidResponse)
	})
}

// sent records the params of the requests that a client sends.
type sent struct {
	mu  sync.Mutex
	all []string
}

func (s *sent) trace(sent bool, message []byte) {
	m, err := jsonrpc.Parse(message, jsonrpc.Limits{})
	if !sent || err != nil || m.Kind != jsonrpc.Request {
		return
	}
	var params map[string]json.RawMessage
	_ = json.Unmarshal(m.Raw, &params)
	delete(params, "_meta")
	raw, _ := json.Marshal(params)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m.Method+" "+string(raw))
}

// of returns the params of the requests with a method.
func (s *sent) of(method string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.all {
		if params, ok := strings.CutPrefix(request, method+" "); ok {
			all = append(all, params)
		}
	}
	return all
}

// wants fails the test unless the client has sent n requests with a method.
func (s *sent) wants(t *testing.T, method string, n int) {
	t.Helper()
	got := s.of(method)
	must.CheckEqual(t, len(got), n, method, got)
}

// dialTask connects to scripts, one for each connection.
func dialTask(t *testing.T, configure func(*client.Dialer), scripts ...*script) (*client.Client, *sent) {
	t.Helper()
	d, out := quiet(), new(sent)
	d.Trace = out.trace
	if configure != nil {
		configure(&d)
	}
	to, _ := target(scripts...)
	c := must.Get(d.Dial(t.Context(), to))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c, out
}

func TestPollsFollowTheRecommendedInterval(t *testing.T) {
	for name, tc := range map[string]struct {
		members string
		want    time.Duration
	}{
		"none":              {``, time.Second},
		"recommended":       {`,"pollIntervalMs":7000`, 7 * time.Second},
		"zero":              {`,"pollIntervalMs":0`, time.Second},
		"negative":          {`,"pollIntervalMs":-9223372036854775808`, time.Second},
		"too short":         {`,"pollIntervalMs":1`, 100 * time.Millisecond},
		"too long":          {`,"pollIntervalMs":9223372036854775807`, 5 * time.Minute},
		"longer than life":  {`,"pollIntervalMs":60000,"ttlMs":20000`, 10 * time.Second},
		"life without end":  {`,"pollIntervalMs":60000,"ttlMs":9223372036854775807`, time.Minute},
		"negative life":     {`,"pollIntervalMs":2000,"ttlMs":-1`, 2 * time.Second},
		"no life mentioned": {`,"pollIntervalMs":2000`, 2 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := taskServer(`"result":{"resultType":"complete","taskId":"t","status":"working",`+taskTimes+
				tc.members+`}`, state("completed", outcome))
			s.Answers["tools/call"] = []string{created(`"taskId":"t","status":"working"` + tc.members)}
			c, out := dialTask(t, nil, s)
			start := time.Now()
			must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "a", nil))(t), "called")
			if took := time.Since(start); took < 2*tc.want || took > 2*tc.want*11/10 {
				t.Errorf("two polls took %v, want 2 x %v and up to 10%% more", took, tc.want)
			}
			got := out.of("tasks/get")
			must.CheckThat(t, slices.Equal(got, []string{`{"taskId":"t"}`, `{"taskId":"t"}`}), "tasks/get %q", got)
		})
	}
}

// A task that is not working when it is created is polled at once: tasks/get returns its data.
func TestTaskThatHasEndedIsPolledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := taskServer(state("completed", outcome))
		s.Answers["tools/call"] = []string{created(`"taskId":"t","status":"completed","ttlMs":null`)}
		c, _ := dialTask(t, nil, s)
		start := time.Now()
		text := must.Get(client.CallTool[string](t.Context(), c, "a", nil))(t)
		must.CheckThat(t, text == "called" && time.Since(start) == 0, "%q, after %v", text, time.Since(start))
	})
}

// A task that Get has found to have ended is polled at once.
func TestWaitForATaskThatIsKnownToHaveEndedTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dialTask(t, nil, taskServer(state("completed", outcome)))
		task := must.Get(c.Task("t"))(t)
		must.Get(task.Get(t.Context()))(t)
		start := time.Now()
		must.Check(t, must.Err(task.Wait(t.Context())))
		must.CheckThat(t, time.Since(start) == 0, " after %v", time.Since(start))
	})
}

func TestInvalidTasksAreInvalidResponses(t *testing.T) {
	for name, first := range map[string]string{
		"no id":          created(`"status":"working","ttlMs":null`),
		"empty id":       created(`"taskId":"","status":"working","ttlMs":null`),
		"long id":        created(`"taskId":"` + strings.Repeat("x", 4097) + `","status":"working","ttlMs":null`),
		"number as id":   created(`"taskId":7,"status":"working","ttlMs":null`),
		"no status":      created(`"taskId":"t","ttlMs":null`),
		"unknown status": created(`"taskId":"t","status":"dreaming","ttlMs":null`),
		"nested task":    created(`"task":{` + working + `}`),
	} {
		t.Run("created/"+name, func(t *testing.T) {
			s := taskServer()
			s.Answers["tools/call"] = []string{first}
			c, out := dialTask(t, nil, s)
			must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrInvalidResponse)
			out.wants(t, "tasks/get", 0)
		})
	}
	for name, next := range map[string]string{
		"another id":       strings.Replace(state("working", ""), `"t"`, `"u"`, 1),
		"no id":            strings.Replace(state("working", ""), `"taskId":"t",`, ``, 1),
		"unknown status":   state("dreaming", ""),
		"no result":        state("completed", ""),
		"result null":      state("completed", `"result":null`),
		"result an array":  state("completed", `"result":[]`),
		"no error":         state("failed", ""),
		"error null":       state("failed", `"error":null`),
		"result malformed": state("completed", `"result":{"resultType":7}`),
	} {
		inBubble(t, "state/"+name, func(t *testing.T) {
			c, out := dialTask(t, nil, taskServer(next))
			must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrInvalidResponse)
			cancelled := len(out.of("tasks/cancel")) == 1
			must.CheckThat(t, cancelled != strings.HasPrefix(name, "result malformed"),
				"the task was cancelled: %v", cancelled)
		})
	}
}

// Only a tools/call may result in a task (tasks extension, Supported Methods). A client
// that has not declared the extension accepts no tasks either.
func TestTaskIsTheResultOfToolCallsOnly(t *testing.T) {
	passing := func(next call.Handler) call.Handler { return next }
	for name, configure := range map[string]func(*client.Dialer){
		"plain":      nil,
		"middleware": func(d *client.Dialer) { d.Middleware = []call.Middleware{passing} },
	} {
		t.Run(name, func(t *testing.T) {
			s := modernServer()
			s.Otherwise = created(working)
			s.Answers["tools/call"], s.Answers["tools/list"] = []string{created(working)}, []string{created(working)}
			c, _ := dialTask(t, configure, s)
			_, read := c.ReadResource(t.Context(), "file:///a")
			_, prompt := c.GetPrompt(t.Context(), "a", nil)
			_, completion := c.Complete(t.Context(), mcp.CompleteParams{})
			var list error
			for _, list = range c.Tools(t.Context()) {
			}
			for method, err := range map[string]error{"resources/read": read, "prompts/get": prompt,
				"completion/complete": completion, "tools/list": list} {
				must.CheckIs(t, err, call.ErrInvalidResponse, method)
			}
			without, _ := dialTask(t, func(d *client.Dialer) { d.NoTasks = true }, s)
			must.CheckIs(t, must.Err(without.CallTool(t.Context(), "a", nil)), call.ErrInvalidResponse)
		})
	}
}

func TestOutcomesOfTasks(t *testing.T) {
	for name, tc := range map[string]struct {
		state string
		check func(error) bool
	}{
		"failed": {state("failed", `"error":{"code":-32099,"message":"not today"}`), func(err error) bool {
			var reported *jsonrpc.Error
			var unknown *client.TaskError
			return errors.As(err, &reported) && reported.Code == -32099 && !errors.As(err, &unknown)
		}},
		"overloaded": {state("failed", `"error":{"code":-32603,"message":"later","data":{"retryAfterMs":5000}}`),
			func(err error) bool {
				var overload *call.OverloadError
				return errors.As(err, &overload) && overload.RetryAfter == 5*time.Second
			}},
		"tool error": {state("completed", `"result":{"content":[],"isError":true}`), func(err error) bool {
			var failed *client.ToolError
			return errors.As(err, &failed)
		}},
		"cancelled": {state("cancelled", ""), func(err error) bool {
			var unknown *client.TaskError
			return errors.Is(err, client.ErrTaskCancelled) && errors.As(err, &unknown) && unknown.ID == "t"
		}},
		"forgotten": {forgotten, func(err error) bool {
			var unknown *client.TaskError
			return errors.Is(err, client.ErrTaskNotFound) && errors.As(err, &unknown) && unknown.ID == "t"
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			c, out := dialTask(t, nil, taskServer(state("working", ""), tc.state))
			_, err := client.CallTool[string](t.Context(), c, "a", nil)
			must.CheckThat(t, tc.check(err), "%v", err)
			out.wants(t, "tasks/cancel", 0)
		})
	}
}

// The end of ctx or of Timeouts.Max cancels the task.
func TestCallThatGivesUpCancelsItsTask(t *testing.T) {
	for _, tc := range []struct {
		name    string
		max     time.Duration
		ctx     time.Duration
		cancels int
		took    time.Duration
	}{
		{"context", 0, 90 * time.Second, 1, 90 * time.Second},
		{"default maximum", 0, time.Hour, 1, 30 * time.Minute},
		{"maximum", 10 * time.Minute, time.Hour, 1, 10 * time.Minute},
		{"none", -1, 2 * time.Hour, 1, 2 * time.Hour},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			c, out := dialTask(t, func(d *client.Dialer) { d.Timeouts.Max = tc.max }, taskServer(state("working", "")))
			ctx, cancel := context.WithTimeout(t.Context(), tc.ctx)
			defer cancel()
			start := time.Now()
			_, err := c.CallTool(ctx, "a", nil)
			var unknown *client.TaskError
			must.CheckThat(t, errors.Is(err, context.DeadlineExceeded) && errors.As(err, &unknown) && unknown.ID == "t",
				"%v", err)
			must.CheckEqual(t, time.Since(start), tc.took)
			out.wants(t, "tasks/cancel", tc.cancels)
		})
	}
}

// A server that does not answer tasks/cancel does not hold up the caller.
func TestCancelOfTaskIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := taskServer(state("working", ""))
		s.Answers["tasks/cancel"] = []string{""}
		c, _ := dialTask(t, nil, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		must.CheckIs(t, must.Err(c.CallTool(ctx, "a", nil)), context.DeadlineExceeded)
		took := time.Since(start)
		must.CheckThat(t, took <= 61*time.Second, "the call took %v", took)
	})
}

// Close ends the wait for a task and its subscription.
func TestCloseEndsTheWaitForTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dialTask(t, nil, seldomPolled(``, state("working", "")))
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "a", nil)
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		must.Check(t, c.Close())
		if err := <-ended; !errors.Is(err, call.ErrClosed) || time.Since(start) != 0 {
			t.Errorf("%v after %v, want ErrClientClosed at once", err, time.Since(start))
		}
	})
}

// A server may forget a task after it has sent the outcome.
func TestOutcomeOfTaskIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dialTask(t, nil, taskServer(state("completed", outcome), forgotten))
		task := must.Get(c.StartTool(t.Context(), "a", nil))(t)
		for range 2 {
			result := must.Get(task.Wait(t.Context()))(t)
			must.CheckEqual(t, len(result.Content), 1, result)
		}
	})
}

func TestIDOfTaskIsNotInErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := taskServer(strings.ReplaceAll(state("dreaming", ""), `"t"`, `"secret-id"`))
		s.Answers["tools/call"] = []string{created(strings.ReplaceAll(working, `"t"`, `"secret-id"`))}
		c, _ := dialTask(t, nil, s)
		_, err := c.CallTool(t.Context(), "a", nil)
		must.CheckThat(t, err != nil && !strings.Contains(fmt.Sprint(err), "secret-id"), "%v", err)
	})
}

// A program may implement the extension itself. It then receives the task.
func TestProgramMayImplementTasks(t *testing.T) {
	d := quiet()
	d.Extensions = []client.Extension{{ID: mcp.ExtensionTasks, ResultTypes: []string{mcp.ResultTypeTask}}}
	to, rec := target(taskServer())
	c := must.Get(d.Dial(t.Context(), to))(t)
	must.CheckIs(t, must.Err(c.CallTool(t.Context(), "a", nil)), call.ErrInvalidResponse)
	task := must.Get(c.StartTool(t.Context(), "a", nil))(t)
	must.CheckEqual(t, task.ID(), "t", task)
	_ = c.Close()
	rec.wants(t, "tasks/", 0)
}

// progressReports is a function for WithProgress that records its calls.
type progressReports []string

func (r *progressReports) add(done, total float64, message string) {
	*r = append(*r, fmt.Sprintf("%v/%v %s", done, total, message))
}

// The tasks extension does not allow progress notifications for a task (Task Status Notifications), so its status
// message is the progress. Each message is reported once, and only while the task works.
func TestStatusMessagesOfATaskAreItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		message := func(status, text string) string { return state(status, `"statusMessage":"`+text+`"`) }
		asks := strings.Replace(needs("q"), `"inputRequests"`, `"statusMessage":"waits","inputRequests"`, 1)
		s := taskServer(state("working", ""), message("working", "mixing"), message("working", "mixing"), asks,
			message("working", "baking"), state("completed", `"statusMessage":"baked",`+outcome))
		c, _ := dialTask(t, func(d *client.Dialer) {
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			}
		}, s)
		var got progressReports
		must.Get(c.CallTool(t.Context(), "a", nil, client.WithProgress(got.add)))(t)
		want := []string{"0/0 mixing", "1/0 baking"}
		must.CheckThat(t, slices.Equal(got, want), "%q, want %q", got, want)
	})
}

// In 2025-11-25, the progress token of the call is valid until the task has ended
// (basic/utilities/progress, Behavior Requirements, 3). The notifications replace the status messages,
// which say less.
func TestTaskOfASessionReportsProgressWithTheTokenOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := func(token string, done int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,`+
				`"progress":%d,"total":4,"message":"m"}}`+"\n", token, done)
		}
		late := strings.Replace(sessionState("working"), `"status"`, `"statusMessage":"late","status"`, 1)
		s := sessionTasks(mcp.TaskRequired, "!lines "+progress("3", 2)+progress("99", 9)+`{"jsonrpc":"2.0","id":$id,`+
			late+`}`, sessionState("completed"))
		s.Answers["tools/call"] = []string{"!lines " + `{"jsonrpc":"2.0","id":$id,` + s.Answers["tools/call"][0] +
			"}\n" + progress("$id", 1)}
		s.Answers["tasks/result"] = []string{"!lines " + progress("3", 3) + `{"jsonrpc":"2.0","id":$id,` + outcome +
			"}"}
		c, _ := dialTask(t, func(d *client.Dialer) {
			inSession(d)
			d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) { // sends a copy of the request
					if err := c.SetMeta("com.example/a", 1); err != nil {
						return nil, err
					}
					return next(ctx, c)
				}
			}}
		}, s)
		names(t, c)
		var got progressReports
		must.Get(c.CallTool(t.Context(), "a", nil, client.WithProgress(got.add)))(t)
		want := []string{"1/4 m", "2/4 m", "3/4 m"}
		must.CheckThat(t, slices.Equal(got, want), "%q, want %q", got, want)
	})
}

// Progress arrives while the task works, even after a question, when a client of 2025-11-25 waits for the result.
func TestProgressOfATaskArrivesBeforeItsEnd(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			s := &server.Server{Name: "s", Logger: slog.New(slog.DiscardHandler)}
			seen := make(chan struct{})
			server.AddTool(s, mcp.Tool{Name: "bake"}, func(ctx context.Context, _ struct{}) (string, error) {
				if _, err := server.Elicit[struct{ Kind string }](ctx, "which?"); err != nil {
					return "", err
				}
				if err := server.Progress(ctx, 1, 2, "baking"); err != nil {
					return "", err
				}
				<-seen
				return "done", nil
			}, server.AsTask(server.TaskOptions{Support: mcp.TaskRequired}))
			d := quiet()
			d.Revision = revision
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return mcp.AcceptElicit(map[string]any{"Kind": "plum"})
			}
			c := must.Get(d.Dial(t.Context(), inMemory(s)))(t)
			defer c.Close()
			text, err := client.CallTool[string](t.Context(), c, "bake", nil,
				client.WithProgress(func(_, _ float64, message string) {
					if message == "baking" {
						close(seen)
					}
				}))
			must.Do(t, err)
			must.CheckEqual(t, text, "done", revision)
			must.Check(t, s.Shutdown(t.Context()))
		})
	}
}
