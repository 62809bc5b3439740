package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// withTasks is the _meta of a client of 2026-07-28 that declares the tasks extension.
const withTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// newTaskServer returns a server with the tool "job", which reports progress, asks for a name and
// waits until release is closed.
func newTaskServer(release chan struct{}) *server.Server {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) {
		time.Sleep(time.Second) // the client has the id of the task
		if err := server.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
		if err != nil {
			return "", err
		}
		select {
		case <-release:
			return "Hello, " + answer.Name, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, server.AsTask(server.TaskOptions{}))
	return s
}

// member returns the first string with a name in a message.
func member(t testing.TB, message, name string) string {
	t.Helper()
	found := regexp.MustCompile(`"` + name + `":"([^"]*)"`).FindStringSubmatch(message)
	must.That(t, found != nil, "no %s in %s", name, message)
	return found[1]
}

func inputKey(t testing.TB, message string) string {
	t.Helper()
	found := regexp.MustCompile(`"inputRequests":\{"([^"]*)"`).FindStringSubmatch(message)
	must.That(t, found != nil, "no input requests in %s", message)
	return found[1]
}

// Tasks extension, Task Status Notifications: the acknowledgement lists the tasks of the caller, and
// each notification is what tasks/get would have returned. No progress is sent on the stream.
func TestChangesOfTasksAreNotifiedToSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newTaskServer(release)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks +
			`}}`)
		id := member(t, w.Receive(), "taskId")
		time.Sleep(2 * time.Second)
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen",` +
			`"params":{"notifications":{"taskIds":["unknown","` + id + `"]},` + withTasks + `}}`)
		w.Expect(acknowledged(`2`, `{"taskIds":["`+id+`"]}`))
		next := func(id, status string) string {
			t.Helper()
			got := w.Receive()
			if !strings.HasPrefix(got,
				`{"jsonrpc":"2.0","method":"notifications/tasks",`+
					`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"taskId":"`+id+`","status":"`+
					status+`"`) {
				t.Fatalf("want %s, got %s", status, got)
			}
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
			_, state, _ := strings.Cut(got, `"taskId"`)
			answer := w.Receive()
			must.CheckThat(t, strings.HasSuffix(answer, `"taskId"`+state), "notified %s\nanswered %s", got, answer)
			return got
		}
		key := inputKey(t, next(id, "input_required"))
		w.Send(`{"jsonrpc":"2.0","id":4,"method":"tasks/update","params":{"taskId":"` + id + `","inputResponses":{"` +
			key + `":{"action":"accept","content":{"Name":"Ada"}}},` + withTasks + `}}`)
		answers := w.Receive() + w.Receive() // in any order
		must.CheckContains(t, answers, `"id":4,"result":{"resultType":"complete"`)
		must.CheckContains(t, answers, `"status":"working"`)
		close(release)
		got := next(id, "completed")
		must.CheckThat(t, strings.HasSuffix(got,
			`"result":{"resultType":"complete","content":[{"type":"text","text":"Hello, Ada"}]}}}`), "%v", got)
		w.Send(cancelled(`2`))
	})
}

// 2025-11-25, basic/utilities/tasks: status notifications have no related task; progress and input
// requests do.
func TestSessionsAreNotifiedOfTheirTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newTaskServer(release)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
		must.CheckContains(t, w.Receive(), `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
		w.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` +
			`"task":{"ttl":60000},"_meta":{"progressToken":"p"}}}`)
		answer := w.Receive()
		id := member(t, answer, "taskId")
		must.CheckThat(t, strings.Contains(answer,
			`"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}},"task":{"taskId"`) &&
			strings.Contains(answer, `"ttl":60000`), "%v", answer)
		related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
		w.Expect(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,` +
			`"total":2,"message":"half",` + related + `}}`)
		// Several changes in a short time may be one notification.
		until := func(status string) {
			t.Helper()
			for last := ""; last != status; {
				got := w.Receive()
				must.That(t, strings.Contains(got, `"method":"notifications/tasks/status"`) &&
					!strings.Contains(got, "related-task"), "%v", got)
				next := member(t, got, "status") + member(t, got, "statusMessage")
				must.CheckThat(t, next != last, "notified twice: %s", got)
				last = next
			}
		}
		until("input_requiredhalf")
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
		question := w.Receive()
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
		}
		err := json.Unmarshal([]byte(question), &m)
		must.That(t, err == nil && m.Method == "elicitation/create" &&
			string(m.Params.Meta["io.modelcontextprotocol/related-task"]) == `{"taskId":"`+id+`"}`, "%v", question)
		w.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"Name":"Ada"}}}`, m.ID))
		until("workinghalf")
		close(release)
		result, status := w.Receive(), w.Receive() // in any order
		if strings.Contains(status, `"id":2`) {
			result, status = status, result
		}
		if result != `{"jsonrpc":"2.0","id":2,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+
			`"}},"content":[{"type":"text","text":"Hello, Ada"}]}}` ||
			!strings.Contains(status, `"status":"completed"`) {
			t.Errorf("%s\n%s", result, status)
		}
	})
}

// A goroutine of a handler asks or detaches while the handler returns, or after it has. No task is left, neither in the
// store nor in the place that it would need.
func TestNoTaskBeginsWhenTheHandlerHasReturned(t *testing.T) {
	ask := func(ctx context.Context) error {
		_, err := server.Elicit[struct{ Name string }](ctx, "name?")
		return err
	}
	for name, c := range map[string]struct {
		late    func(context.Context) error
		options []server.Option
	}{
		"a parked call asks": {ask, []server.Option{server.Parked()}},
		"a call detaches":    {server.Detach, []server.Option{server.Parked(), server.AsTask(server.TaskOptions{})}},
	} {
		for _, begun := range []bool{true, false} { // when the handler returns
			t.Run(fmt.Sprintf("%s, begun %v", name, begun), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared := newHookedStore(func(_ context.Context, op, key string, _ []byte) error {
						if op == "add" && key == "local/tasks" {
							time.Sleep(time.Second)
						}
						return nil
					})
					s := &server.Server{Store: shared, Logger: slog.New(slog.DiscardHandler)}
					s.Limits.Tasks = 1
					defer s.Shutdown(t.Context())
					late := make(chan error, 1)
					server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) {
						go func() {
							if !begun {
								time.Sleep(10 * time.Second)
							}
							late <- c.late(context.WithoutCancel(ctx))
						}()
						time.Sleep(time.Second / 2)
						return "done", nil
					}, c.options...)
					w := connect(t, s)
					for i := range 3 {
						w.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"job","arguments":{},%s}}`,
							i, withTasks))
						must.CheckContains(t, w.Receive(), `"text":"done"`)
						must.CheckIs(t, must.Receive(t, late, "the goroutine of the handler"), call.ErrCallDone)
						synctest.Wait()
						left := must.Get(shared.List(t.Context(), "local/tasks", "", 10))(t)
						must.CheckThat(t, len(left) <= 0, "left in the store: %v", left)
					}
				})
			})
		}
	}
}

type tenantKey struct{}

// A handler finds the values of the context of its request in a task, too.
func TestTasksHaveTheValuesOfTheirRequest(t *testing.T) {
	value := func(ctx context.Context) (string, error) {
		if c := call.From(ctx); c == nil || c.Method() != mcp.MethodCallTool {
			return "", errors.New("the context has no call")
		}
		return fmt.Sprint("tenant ", ctx.Value(tenantKey{})), nil
	}
	for name, c := range map[string]struct {
		handler func(context.Context, struct{}) (string, error)
		options []server.Option
	}{
		"a task": {func(ctx context.Context, _ struct{}) (string, error) { return value(ctx) },
			[]server.Option{server.AsTask(server.TaskOptions{})}},
		"a detached call": {func(ctx context.Context, _ struct{}) (string, error) {
			if err := server.Detach(ctx); err != nil {
				return "", err
			}
			return value(ctx)
		}, []server.Option{server.Parked(), server.AsTask(server.TaskOptions{})}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server.Server{Logger: slog.New(slog.DiscardHandler), Middleware: []call.Middleware{
				func(next call.Handler) call.Handler {
					return func(ctx context.Context, c *call.Call) (any, error) {
						if c.Method() == mcp.MethodCallTool {
							ctx = context.WithValue(ctx, tenantKey{}, "acme")
						}
						return next(ctx, c)
					}
				},
			}}
			defer s.Shutdown(t.Context())
			server.AddTool(s, mcp.Tool{Name: "job"}, c.handler, c.options...)
			w := connect(t, s)
			w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
			id := member(t, w.Receive(), "taskId")
			w.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id +
				`"]},` + withTasks + `}}`)
			receiveUntil(w, `"text":"tenant acme"`)
		})
	}
	s := &server.Server{Logger: slog.New(slog.DiscardHandler), Middleware: []call.Middleware{
		func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				return next(context.WithValue(ctx, tenantKey{}, "acme"), c)
			}
		},
	}}
	defer s.Shutdown(t.Context())
	server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) { return value(ctx) },
		server.AsTask(server.TaskOptions{}))
	w := connect(t, s)
	w.Handshake("2025-11-25")
	w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`)
	id := member(t, w.Receive(), "taskId")
	w.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
	receiveUntil(w, `"text":"tenant acme"`)
}

// brokenBus delivers nothing: its Publish fails or, if ended is set, its subscriptions end at once. It counts both.
type brokenBus struct {
	store.Bus
	ended bool
	uses  atomic.Int64
}

func (b *brokenBus) Publish(context.Context, string, []byte) error {
	b.uses.Add(1)
	if b.ended {
		return nil
	}
	return errors.New("connection reset by peer")
}

func (b *brokenBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	b.uses.Add(1)
	s, err := b.Bus.Subscribe(ctx, topic, queue)
	if err == nil && b.ended {
		s.Close()
	}
	return s, err
}

// receiveUntil receives messages until one contains text, and returns that one.
func receiveUntil(w *wiretest.Peer, text string) string {
	w.T.Helper()
	for {
		got := w.Receive()
		if strings.Contains(got, text) {
			return got
		}
		if w.T.Failed() {
			w.T.FailNow()
		}
	}
}

// Each request that waits for a task or a parked call learns of its changes, although the Bus delivers nothing, and
// nothing asks the Bus or the store in a loop.
func TestRequestsLearnOfChangesOfTasksWithoutTheBus(t *testing.T) {
	const answers = `"inputResponses":{"KEY":{"action":"accept","content":{"Name":"Ada"}}}`
	for fault, ended := range map[string]bool{"Publish fails": false, "the Bus has ended": true} {
		for waiter, wait := range map[string]func(t *testing.T, jobs, other *wiretest.Peer){
			"subscriptions/listen": func(t *testing.T, jobs, other *wiretest.Peer) {
				jobs.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks + `}}`)
				id := member(t, jobs.Receive(), "taskId")
				other.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` +
					id + `"]},` + withTasks + `}}`)
				got := receiveUntil(other, "input_required")
				jobs.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":"` + id + `",` +
					strings.Replace(answers, "KEY", inputKey(t, got), 1) + `,` + withTasks + `}}`)
				_ = jobs.Receive()
				receiveUntil(other, "Hello, Ada")
			},
			"tasks/result": func(t *testing.T, jobs, other *wiretest.Peer) {
				for _, w := range []*wiretest.Peer{jobs, other} {
					w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
						`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
					_ = w.Receive()
				}
				jobs.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{"ttl":600000}}}`)
				id := member(t, jobs.Receive(), "taskId")
				other.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
				question := other.Receive()
				must.CheckContains(t, question, "elicitation/create")
				number := strings.TrimPrefix(question[strings.Index(question, `"id":`):], `"id":`)
				number = number[:strings.IndexAny(number, ",}")]
				other.Send(`{"jsonrpc":"2.0","id":` + number + `,"result":{"action":"accept","content":{"Name":"Ada"}}}`)
				receiveUntil(other, "Hello, Ada")
			},
			"a parked call": func(_ *testing.T, jobs, other *wiretest.Peer) {
				callBook(jobs, "", "")
				first := jobs.Receive()
				callBook(other, first, `{"Name":"Ada"}`)
				second := other.Receive()
				callBook(other, second, `{"City":"London"}`)
				receiveUntil(other, "Ada in London")
			},
		} {
			t.Run(fault+"/"+waiter, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					memory := store.NewMemory()
					bus := &brokenBus{Bus: memory, ended: ended}
					hooked := &hookedStore{Store: memory}
					var gets, runs, ends atomic.Int64
					hooked.before = func(_ context.Context, op, _ string, _ []byte) error {
						if op == "get" {
							gets.Add(1)
						}
						return nil
					}
					replica := func() *server.Server {
						var started, finished atomic.Int32
						s := parkedReplica(store.Join(hooked, hooked, hooked, bus), &started, &finished)
						server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) {
							runs.Add(1)
							defer ends.Add(1)
							answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
							if err != nil {
								return "", err
							}
							time.Sleep(time.Second)
							return "Hello, " + answer.Name, nil
						}, server.AsTask(server.TaskOptions{}))
						return s
					}
					a, b := replica(), replica()
					defer a.Shutdown(t.Context())
					defer b.Shutdown(t.Context())
					begun := time.Now()
					wait(t, connect(t, a), connect(t, b))
					took := time.Since(begun)
					if took > 25*time.Second { // up to four changes, each within five seconds
						t.Errorf("took %v", took)
					}
					if most := 40 * int64(took/time.Second+2); gets.Load() > most || bus.uses.Load() > most {
						t.Errorf("%d reads and %d uses of the Bus in %v", gets.Load(), bus.uses.Load(), took)
					}
				})
			})
		}
	}
}
