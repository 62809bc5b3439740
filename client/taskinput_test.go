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
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The input requests of tasks in 2026-07-28 (tasks extension, Task Update Requests).

// slowly answers forms after a delay and records their messages.
func slowly(after time.Duration, asked chan<- string) func(*client.Dialer) {
	return func(d *client.Dialer) {
		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked <- form.Message
			// the race detector crashes if several goroutines of a bubble receive from timers that are due
			if after > 0 {
				select {
				case <-time.After(after):
				case <-ctx.Done():
					asked <- fmt.Sprint(form.Message, " ended: ", context.Cause(ctx))
					return nil, ctx.Err()
				}
			}
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{}`)}, nil
		}
	}
}

// questions returns what has been asked, sorted.
func questions(asked chan string) (all []string) {
	for {
		select {
		case message := <-asked:
			all = append(all, message)
		default:
			slices.Sort(all)
			return all
		}
	}
}

// The server repeats the input requests while the user answers, and after the response.
func TestInputRequestsOfTaskAreAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 100)
		c, out := dialTask(t, slowly(2500*time.Millisecond, asked), taskServer(
			needs("a", "b"), needs("a", "b"), needs("b", "a"), needs("a", "b"), needs("a", "b", "c"), needs("c"),
			state("working", ""), needs("a"), needs("c"), needs("c"), state("completed", outcome)))
		must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "x", nil))(t), "called")
		got := questions(asked)
		must.CheckThat(t, slices.Equal(got, []string{"a", "b", "c"}), "the user was asked %q", got)
		accept := `{"action":"accept","content":{}}`
		if got := out.of("tasks/update"); !slices.Equal(got, []string{
			`{"inputResponses":{"a":` + accept + `,"b":` + accept + `},"taskId":"t"}`,
			`{"inputResponses":{"c":` + accept + `},"taskId":"t"}`,
		}) {
			t.Errorf("tasks/update %q", got)
		}
	})
}

func TestHandlerEndsWithItsTask(t *testing.T) {
	for name, last := range map[string]string{
		"completed": state("completed", outcome), "cancelled": state("cancelled", ""), "forgotten": forgotten,
	} {
		inBubble(t, name, func(t *testing.T) {
			asked := make(chan string, 100)
			c, out := dialTask(t, slowly(time.Hour, asked), taskServer(needs("a"), needs("a"), last))
			start := time.Now()
			_, err := c.CallTool(t.Context(), "x", nil)
			took := time.Since(start)
			must.CheckThat(t, (err == nil) == (name == "completed") && took <= time.Minute, "%v after %v", err, took)
			got := questions(asked)
			must.CheckThat(t, len(got) == 2 && strings.HasPrefix(got[1], "a ended: "), "the user was asked %q", got)
			out.wants(t, "tasks/update", 0)
		})
	}
}

// A server of this extension cannot receive the error of a handler, so the call ends with it.
func TestTaskEndsWithTheErrorOfItsHandler(t *testing.T) {
	failure := errors.New("no user here")
	failing := func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, failure }
	}
	for name, tc := range map[string]struct {
		state     string
		configure func(*client.Dialer)
		want      error
	}{
		"handler fails": {needs("a"), failing, failure},
		"not declared":  {needs("a"), nil, call.ErrInvalidResponse},
		"another method": {strings.Replace(needs("a"), "elicitation/create", "sampling/createMessage", 1), failing,
			call.ErrInvalidResponse},
		"unknown method": {strings.Replace(needs("a"), "elicitation/create", "tools/call", 1), failing,
			call.ErrInvalidResponse},
		"too many":           {needs(keys("k", outbound.MaxInputRequests+1)...), failing, call.ErrInvalidResponse},
		"malformed requests": {state("input_required", `"inputRequests":[]`), failing, call.ErrInvalidResponse},
	} {
		inBubble(t, name, func(t *testing.T) {
			c, out := dialTask(t, tc.configure, taskServer(tc.state))
			_, err := c.CallTool(t.Context(), "x", nil)
			var reported *jsonrpc.Error
			var unknown *client.TaskError
			must.CheckThat(t, errors.Is(err, tc.want) && !errors.As(err, &reported) && errors.As(err, &unknown),
				"%v, want %v", err, tc.want)
			out.wants(t, "tasks/cancel", 1)
		})
	}
}

func keys(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// A server cannot ask without end.
func TestInputRequestsOfOneTaskAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var states []string
		for i := range 40 {
			states = append(states, needs(keys(fmt.Sprint(i, "-"), 200)...))
		}
		n := 0
		asked := make(chan string, 10_000)
		c, _ := dialTask(t, slowly(0, asked), taskServer(states...))
		must.CheckIs(t, must.Err(c.CallTool(t.Context(), "x", nil)), call.ErrInvalidResponse)
		n = len(questions(asked))
		must.CheckThat(t, n <= 10*outbound.MaxInputRequests, "the user was asked %d times", n)
	})
}

// At most 16 handlers run at the same time, as in other calls.
func TestHandlersOfTaskAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 100)
		c, _ := dialTask(t, slowly(time.Hour, asked), taskServer(needs(keys("k", 50)...)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = c.CallTool(ctx, "x", nil)
		began := slices.DeleteFunc(questions(asked), func(message string) bool {
			return strings.Contains(message, " ended")
		})
		must.CheckEqual(t, len(began), 16)
	})
}

// The server may not be able to store the responses at first.
func TestResponsesOfTaskAreSentUntilAccepted(t *testing.T) {
	const down = `"error":{"code":-32603,"message":"the store is down"}`
	for name, tc := range map[string]struct {
		updates []string
		valid   bool
	}{
		"accepted later": {[]string{down, down, down, ack}, true},
		"never":          {[]string{down}, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			states := slices.Repeat([]string{needs("a")}, 10)
			if tc.valid {
				states = append(states, state("completed", outcome))
			}
			s := taskServer(states...)
			s.Answers["tasks/update"] = tc.updates
			asked := make(chan string, 100)
			c, out := dialTask(t, slowly(0, asked), s)
			start := time.Now()
			_, err := c.CallTool(t.Context(), "x", nil, client.WithTimeout(20*time.Second))
			took := time.Since(start)
			must.CheckThat(t, (err == nil) == tc.valid && took <= 22*time.Second, "%v after %v", err, took)
			got := out.of("tasks/update")
			must.CheckThat(t, len(got) >= 4, "tasks/update %q", got)
			if got := questions(asked); len(got) != 1 {
				t.Errorf("the user was asked %q", got)
			}
		})
	}
}

// The server may ask before it creates the task (tasks extension, Task Creation).
func TestCallMayAskBeforeItBecomesTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := taskServer(state("completed", outcome))
		s.Answers["tools/call"] = []string{
			strings.Replace(strings.Replace(needs("a"), `"complete"`, `"input_required"`, 1), `"taskId":"t",`, ``, 1),
			created(working),
		}
		asked := make(chan string, 100)
		c, out := dialTask(t, slowly(0, asked), s)
		wantCalled(t, c, "x")
		got := out.of("tools/call")
		must.CheckThat(t, len(got) == 2 && len(questions(asked)) == 1, "tools/call %q", got)
	})
}

// A server may reject responses because the task has ended meanwhile. The next poll decides.
func TestRejectedResponsesOfTask(t *testing.T) {
	for name, tc := range map[string]struct {
		last  string
		valid bool
	}{
		"the task has ended": {state("completed", outcome), true},
		"the task waits":     {needs("a"), false},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := taskServer(needs("a"), tc.last)
			s.Answers["tasks/update"] = []string{`"error":{"code":-32602,"message":"too late"}`}
			asked := make(chan string, 100)
			c, out := dialTask(t, slowly(0, asked), s)
			_, err := c.CallTool(t.Context(), "x", nil)
			var reported *jsonrpc.Error
			if tc.valid && err != nil || !tc.valid && (!errors.As(err, &reported) || reported.Code != -32602) {
				t.Error(err)
			}
			out.wants(t, "tasks/update", 1)
		})
	}
}

// Two waits for one task ask once.
func TestWaitsForOneTaskAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 100)
		c, _ := dialTask(t, slowly(3*time.Second, asked),
			taskServer(needs("a"), needs("a"), needs("a"), needs("a"), state("completed", outcome)))
		task := must.Get(c.Task("t"))(t)
		errs := make(chan error)
		for range 2 {
			go func() {
				_, err := task.Wait(t.Context())
				errs <- err
			}()
		}
		must.Check(t, errors.Join(<-errs, <-errs))
		got := questions(asked)
		must.CheckThat(t, len(got) != 0 && got[0] == "a" && len(got) <= 2 &&
			(len(got) != 2 || strings.HasPrefix(got[1], "a ended")), "the user was asked %q", got)
	})
}

// A wait that ends gives the input requests back to the next one.
func TestNextWaitAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 100)
		c, out := dialTask(t, slowly(3*time.Second, asked),
			taskServer(needs("a"), needs("a"), needs("a"), needs("a"), needs("a"), needs("a"),
				state("completed", outcome)))
		task := must.Get(c.Task("t"))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		must.Is(t, must.Err(task.Wait(ctx)), context.DeadlineExceeded)
		must.Get(task.Wait(t.Context()))(t)
		out.wants(t, "tasks/update", 1)
	})
}

// Servers may report the changes of tasks (tasks extension, Task Status Notifications).

// taskReports is an answer to subscriptions/listen: an acknowledgement with these fields and
// notifications about the task, but no response.
func taskReports(accepted string, changes int) string {
	lines := []string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` +
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},"notifications":{` + accepted + `}}}`}
	for range changes {
		lines = append(lines,
			`{"jsonrpc":"2.0","method":"notifications/tasks",`+
				`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},`+working+`,`+taskTimes+`}}`)
	}
	return "!lines " + strings.Join(lines, "\n")
}

const seldom = `,"pollIntervalMs":60000`

// seldomPolled returns a server that recommends a poll each minute.
func seldomPolled(listen string, states ...string) *script {
	s := taskServer(states...)
	s.Answers["tools/call"] = []string{created(working + seldom)}
	s.Answers["subscriptions/listen"] = []string{listen}
	return s
}

func TestClientPollsWhenServerReportsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := dialTask(t, nil, seldomPolled(taskReports(`"taskIds":["t"]`, 1), state("completed", outcome)))
		start := time.Now()
		text := must.Get(client.CallTool[string](t.Context(), c, "a", nil))(t)
		must.CheckThat(t, text == "called" && time.Since(start) == 0, "%q, after %v", text, time.Since(start))
		if got := out.of("subscriptions/listen"); !slices.Equal(got, []string{`{"notifications":{"taskIds":["t"]}}`}) {
			t.Errorf("subscriptions/listen %q", got)
		}
	})
}

// Notifications cannot make the client poll more often than ten times a second.
func TestReportedChangesDoNotFloodTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change := `{"jsonrpc":"2.0","method":"notifications/tasks",` +
			`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3},` + working + `,` + taskTimes + `}}`
		again := "!lines " + `{"jsonrpc":"2.0","id":$id,` + state("working", strings.TrimPrefix(seldom, ",")) + "}\n" +
			change
		c, out := dialTask(t, nil, seldomPolled(taskReports(`"taskIds":["t"]`, 1),
			append(slices.Repeat([]string{again}, 20), state("completed", outcome))...))
		start := time.Now()
		must.Get(c.CallTool(t.Context(), "a", nil))(t)
		if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("%d polls in %v", len(out.of("tasks/get")), took)
		}
	})
}

// Polling works without notifications: the server may not report changes, or the subscription may end.
func TestPollingDoesNotNeedNotifications(t *testing.T) {
	for name, tc := range map[string]struct {
		listen  string
		listens int // subscriptions during two calls with three polls each
	}{
		"not supported":        {methodNotFound, 1},
		"not acknowledged":     {taskReports(``, 0), 1},
		"another task":         {taskReports(`"taskIds":["u"]`, 0), 1},
		"malformed":            {taskReports(`"taskIds":7`, 0), 1},
		"no response":          {``, 2},
		"ends after each poll": {ack, 6},
	} {
		inBubble(t, name, func(t *testing.T) {
			again := state("working", strings.TrimPrefix(seldom, ","))
			last := state("completed", outcome)
			c, out := dialTask(t, nil, seldomPolled(tc.listen, again, again, last, again, again, last))
			for range 2 {
				start := time.Now()
				must.Get(c.CallTool(t.Context(), "a", nil))(t)
				took := time.Since(start)
				must.CheckThat(t, took >= 3*time.Minute && took <= 199*time.Second, "three polls took %v", took)
			}
			out.wants(t, "subscriptions/listen", tc.listens)
		})
	}
}

// A server that ends each subscription at once does not receive a new one after each poll.
func TestSubscriptionThatDoesNotLastIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states := append(slices.Repeat([]string{state("working", "")}, 8), state("completed", outcome))
		s := taskServer(states...)
		s.Answers["subscriptions/listen"] = []string{ack}
		c, out := dialTask(t, nil, s)
		must.Get(c.CallTool(t.Context(), "a", nil))(t)
		out.wants(t, "subscriptions/listen", 1)
	})
}

// In 2025-11-25 a server may report a change before it sends the response that creates the task, or before the client
// waits for the task. The client polls at once.
func TestChangeThatIsReportedBeforeTheWaitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const task = `"taskId":"t","status":"%s","createdAt":"2025-11-25T10:00:00Z",` +
			`"lastUpdatedAt":"2025-11-25T10:00:00Z","ttl":null,"pollInterval":60000`
		working, completed := fmt.Sprintf(task, "working"), fmt.Sprintf(task, "completed")
		s := legacyServer()
		s.Answers = answers(
			"initialize",
			`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},`+
				`"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"old","version":"1"}}`,
			"tools/list",
			`"result":{"tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`,
			"tools/call", "!lines "+strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{`+
				completed+"}}\n", 20)+
				`{"jsonrpc":"2.0","id":$id,"result":{"task":{`+working+`}}}`,
			"tasks/get", `"result":{`+completed+`}`, "tasks/result", called)
		c, _ := dialTask(t, nil, s)
		must.Check(t, drain(c.Tools(t.Context())))
		start := time.Now()
		text, err := client.CallTool[string](t.Context(), c, "a", nil)
		must.CheckThat(t, err == nil && text == "called" && time.Since(start) <= time.Second,
			"%q, %v after %v; want the result at once", text, err, time.Since(start))
	})
}
