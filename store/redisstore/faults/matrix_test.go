//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// Every request of a client goes to another replica, except the messages of HTTP+SSE pairs, and everything works as
// with one server.
func TestEveryFeatureWorksThroughARoundRobinProxy(t *testing.T) {
	f := newFleet(t)
	t.Run("wires", func(t *testing.T) {
		for _, w := range wires {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				for _, feature := range features {
					if feature.in != nil && !feature.in(w) {
						continue
					}
					t.Run(feature.name, func(t *testing.T) {
						t.Parallel()
						feature.use(t, f, w)
					})
				}
			})
		}
	})
	f.finish(t)
}

// features lists what a client uses.
var features = []struct {
	name string
	in   func(wire) bool // nil: available on every wire
	use  func(*testing.T, *fleet, wire)
}{
	{"calls", nil, useCalls},
	{"progress", nil, useProgress},
	{"input requests", nil, useInputRequests},
	{"parked input requests", nil, useParked},
	{"cancellation", nil, useCancellation},
	{"lists, prompts, completion", nil, useData},
	{"changes of lists", nil, useListChanges},
	{"subscriptions to resources", nil, useSubscriptions},
	{"logging", nil, useLogging},
	{"resumption", resumable, useResumption},
	{"cut streams", modern, useCutStreams},
	{"end of sessions", sessions, useEndOfSessions},
	{"tasks", hasTasks, useTasks},
}

func modern(w wire) bool    { return w.revision.Modern() }
func sessions(w wire) bool  { return !w.revision.Modern() && !w.pair }
func resumable(w wire) bool { return sessions(w) && w.revision >= mcp.V20250326 }
func hasTasks(w wire) bool  { return w.revision >= mcp.V20251125 }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// useCalls calls tools until every replica has served one.
func useCalls(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	served := make(map[string]bool)
	// Other clients use the proxy, too, so the replicas that this client reaches are random. After maxCalls
	// calls, one of three replicas is still missing once in 10^17 runs.
	const minCalls, maxCalls = 4 * replicas, 100
	for n := range maxCalls {
		if n >= minCalls && (w.pair || len(served) == replicas) {
			return
		}
		must(t, u.call(t.Context(), "echo", arguments{}))
		name, err := client.CallTool[string](t.Context(), u.Client, "replica", arguments{})
		must(t, err)
		served[name] = true
	}
	t.Errorf("%d of %d replicas have served calls: %v", len(served), replicas, served)
}

func useProgress(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	for range replicas {
		const steps = 10
		var seen []float64
		must(t, u.call(t.Context(), "steps", arguments{Steps: steps},
			u.progress(func(done float64) { seen = append(seen, done) })))
		if want := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(seen, want) {
			t.Errorf("progress %v, want %v", seen, want)
		}
	}
}

func useInputRequests(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	for range replicas {
		must(t, u.call(t.Context(), "sample", arguments{}))
		must(t, u.call(t.Context(), "roots", arguments{}))
		if w.revision >= mcp.V20250618 {
			must(t, u.call(t.Context(), "elicit", arguments{}))
		}
	}
}

func useParked(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	for range replicas {
		must(t, u.call(t.Context(), "sample-parked", arguments{}))
		if w.revision >= mcp.V20250618 {
			must(t, u.call(t.Context(), "elicit-parked", arguments{}))
		}
	}
}

// useCancellation cancels calls while their handlers run.
func useCancellation(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	for range replicas {
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		c := u.issue(ctx)
		failed := make(chan error, 1)
		go func() {
			_, err := u.CallTool(ctx, "wait", arguments{Nonce: c.Nonce()})
			failed <- err
		}()
		fate := func(want string) {
			faulttest.Wait(t, "the call is "+want, func() error {
				got, err := client.CallTool[string](t.Context(), u.Client, "fate", arguments{Name: c.Nonce()})
				if err == nil && got != want {
					err = errors.New(got)
				}
				return err
			})
		}
		fate("started")
		cancel()
		err := <-failed
		c.Failed(err)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call: %v", err)
		}
		fate("cancelled")
	}
}

func useData(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	for range replicas {
		var names []string
		for tool, err := range u.Tools(t.Context()) {
			must(t, err)
			names = append(names, tool.Name)
		}
		if !slices.Contains(names, "echo") {
			t.Errorf("tools %q", names)
		}
		r, err := u.ReadResource(t.Context(), "test:///"+u.name)
		must(t, err)
		if err == nil && r.Contents[0].Text != "note of "+u.name {
			t.Errorf("resource %q", r.Contents[0].Text)
		}
		p, err := u.GetPrompt(t.Context(), "greet", map[string]string{"name": u.name})
		must(t, err)
		if err == nil && p.Messages[0].Content.(*mcp.TextContent).Text != "Greet "+u.name {
			t.Errorf("prompt %+v", p)
		}
		c, err := u.Complete(t.Context(), mcp.CompleteParams{
			Ref:      mcp.CompleteReference{Type: "ref/prompt", Name: "greet"},
			Argument: mcp.CompleteArgument{Name: "name", Value: "A"},
		})
		must(t, err)
		if err == nil && !slices.Equal(c.Values, []string{"Ada"}) {
			t.Errorf("completion %+v", c)
		}
		must(t, u.Ping(t.Context()))
	}
}

// watch collects changes until the test ends.
func watch(t *testing.T, u *user, filter client.WatchFilter) <-chan client.Change {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan client.Change, 100), make(chan struct{})
	go func() {
		defer close(done)
		for change, err := range u.Watch(ctx, filter) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("watch: %v", err)
				}
				return
			}
			select {
			case changes <- change:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return changes
}

// notified causes a change again and again until it is reported, because notifications before the watch is
// established are lost.
func notified(t *testing.T, changes <-chan client.Change, cause func(), is func(client.Change) bool) {
	t.Helper()
	cause()
	faulttest.Wait(t, "the change is reported", func() error {
		for {
			select {
			case c := <-changes:
				if is(c) {
					return nil
				}
			default:
				cause()
				return errors.New("no notification")
			}
		}
	})
}

var added atomic.Int64

func useListChanges(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	changes := watch(t, u, client.WatchFilter{Tools: true})
	for range replicas {
		var name string
		notified(t, changes, func() {
			name = fmt.Sprintf("added-%d", added.Add(1))
			must(t, u.call(t.Context(), "add", arguments{Name: name}))
		}, func(c client.Change) bool { return c.Kind == client.ToolsChanged && !c.Resync })
		for range replicas {
			faulttest.Wait(t, "the new tool is on every replica",
				func() error { return u.call(t.Context(), name, arguments{}) })
		}
	}
}

func useSubscriptions(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	uri := "test:///" + u.name
	changes := watch(t, u, client.WatchFilter{URIs: []string{uri}})
	for range replicas {
		notified(t, changes, func() {
			must(t, u.call(t.Context(), "update", arguments{Name: uri}))
		}, func(c client.Change) bool {
			if c.URI != uri {
				t.Errorf("%+v is a change of another resource than %s", c, uri)
			}
			return c.Kind == client.ResourceUpdated && !c.Resync
		})
	}
}

func useLogging(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	must(t, u.SetLogLevel(t.Context(), "debug"))
	for range replicas {
		must(t, u.call(t.Context(), "log", arguments{}))
		faulttest.Wait(t, "the log message arrives", func() error {
			select {
			case <-u.logs:
				return nil
			default:
				return errors.New("no message")
			}
		})
	}
}

// useResumption cuts the stream of a call several times. The client resumes it at other replicas, and misses nothing.
func useResumption(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	const steps, cuts = 60, 5
	cut := 0
	events := f.ledger.Stream(u.name)
	// clients resume after one second
	must(t, u.call(t.Context(), "steps", arguments{Steps: steps, Pause: 100}, u.progress(func(done float64) {
		events.Received(int(done))
		if int(done)%(steps/cuts) == 1 {
			if f.proxy.cut(u.name) > 0 { // events that were read together follow a cut
				f.ledger.Fault()
				cut++
			}
		}
	})))
	events.Ended(steps)
	if cut < 2 {
		t.Errorf("the stream was cut %d times, want at least 2", cut)
	}
}

// useCutStreams cuts the stream of a call. The call then ends, because 2026-07-28 has no resumption.
func useCutStreams(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	err := u.call(t.Context(), "steps", arguments{Steps: 1000, Pause: 20}, u.progress(func(float64) {
		f.proxy.cut(u.name)
		f.ledger.Fault()
	}))
	if !errors.Is(err, call.ErrConnectionLost) {
		t.Errorf("the call whose stream was cut: %v", err)
	}
	must(t, u.call(t.Context(), "echo", arguments{}))
}

// useEndOfSessions ends a session at one replica. It then no longer exists on any other replica.
func useEndOfSessions(t *testing.T, f *fleet, w wire) {
	u := f.newUser(w)
	id := u.initialize(t)
	for range replicas {
		if _, status := u.post(t, id, pingBody); status != http.StatusOK {
			t.Errorf("ping in the session: status %d", status)
		}
	}
	other := f.newUser(w)
	for range replicas {
		if _, status := other.post(t, id, pingBody); status != http.StatusNotFound {
			t.Errorf("ping of another user in the session: status %d, want 404", status)
		}
	}
	if _, status := u.send(t, http.MethodDelete, id, ""); status != http.StatusNoContent {
		t.Errorf("DELETE: status %d", status)
	}
	for range 2 * replicas {
		if _, status := u.post(t, id, pingBody); status != http.StatusNotFound {
			t.Errorf("ping after the end of the session: status %d, want 404", status)
		}
	}
}

const pingBody = `{"jsonrpc":"2.0","id":2,"method":"ping"}`

// initialize opens a session whose messages the test writes itself, and returns its id.
func (u *user) initialize(t *testing.T) (id string) {
	t.Helper()
	id, status := u.post(t, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+
		string(u.wire.revision)+
		`","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if id == "" || status != http.StatusOK {
		t.Fatalf("initialize: status %d, session %q", status, id)
	}
	u.post(t, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return id
}

func (u *user) post(t *testing.T, session, body string) (id string, status int) {
	t.Helper()
	return u.send(t, http.MethodPost, session, body)
}

// send sends one HTTP request and returns the session and the status of the response.
func (u *user) send(t *testing.T, method, session, body string) (id string, status int) {
	t.Helper()
	header := []string{"Authorization", "Bearer " + u.name}
	if session != "" {
		header = append(header, "Mcp-Session-Id", session, "Mcp-Protocol-Version", string(u.wire.revision))
	}
	response := wiretest.Do(t, method, u.fleet.proxy.url, body, header...)
	response.Body.Close()
	return response.Header.Get("Mcp-Session-Id"), response.StatusCode
}

// useTasks runs tools as tasks.
func useTasks(t *testing.T, f *fleet, w wire) {
	u := f.dial(t, w)
	f.open("open")
	for range replicas {
		must(t, u.call(t.Context(), "job", arguments{Name: "open"}))
		must(t, u.call(t.Context(), "job-asking", arguments{}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	c := u.issue(ctx)
	task, err := u.StartTool(ctx, "job", arguments{Nonce: c.Nonce(), Name: "closed"})
	if err != nil {
		t.Fatal(err)
	}
	if task.ID() == "" {
		t.Fatal("the tool does not run as a task")
	}
	for range replicas {
		state, err := task.Get(ctx)
		must(t, err)
		if err == nil && state.Status != mcp.TaskWorking {
			t.Errorf("status %s", state.Status)
		}
	}
	must(t, task.Cancel(ctx))
	_, err = task.Wait(ctx)
	c.Failed(err)
	if !errors.Is(err, client.ErrTaskCancelled) {
		t.Errorf("the cancelled task: %v", err)
	}
}
