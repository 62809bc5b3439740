//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/store"
)

// calls returns, for each kind of call in callTable, a function that prepares a call and returns a
// function that makes it. Only the call itself is measured.
func (f *fleet) calls() map[string]func() func() {
	all := make(map[string]func() func())
	f.modernCalls(all)
	f.sessionCalls(all)
	f.streamCalls(all)
	f.modernTasks(all)
	f.sessionTasks(all)
	all["announcement of a change of a list or resource"] = func() func() {
		stream := f.listen(1, `"resourceSubscriptions":["note://b"]`)
		return func() {
			f.replicas[0].ResourceUpdated("note://b")
			f.until(stream, "notifications/resources/updated")
		}
	}
	return all
}

// listen begins a subscriptions/listen and reads its acknowledgement.
func (f *fleet) listen(replica int, notifications string) *http.Response {
	f.t.Helper()
	stream := f.modern(replica, "subscriptions/listen", "", fmt.Sprintf(`"notifications":{%s}`, notifications))
	f.until(stream, "notifications/subscriptions/acknowledged")
	return stream
}

func (f *fleet) modernCalls(all map[string]func() func()) {
	all["`tools/call` and other requests"] = func() func() {
		return func() {
			f.modernCall(0, "echo", "")
			f.text(f.modern(1, "tools/list", "", ""))
			f.text(f.modern(0, "resources/read", "note://a", `"uri":"note://a"`))
		}
	}
	all["call with a question, whose handler runs again"] = func() func() {
		return func() { f.modernCall(1, "ask", f.answered(f.modernCall(0, "ask", ""))) }
	}
	all["`server.Once`, first run"] = func() func() {
		return func() { f.modernCall(0, "once", "") }
	}
	all["`server.Once`, next run"] = func() func() {
		again := f.answered(f.modernCall(0, "once", ""))
		return func() { f.modernCall(1, "once", again) }
	}
	// Before the handler of an answered call continues, its request must wait for a change of the call.
	const readsOfAnswered = 6
	park := func() (response string) {
		f.monitor.begin()
		done := f.inBackground(func() { response = f.modernCall(0, "ask_parked", "") })
		(<-f.waiting)() // the call is stored only with its question
		<-done
		return response
	}
	all["parked call, until its question"] = func() func() {
		return func() { park() }
	}
	all["parked call, answer at another replica until the result"] = func() func() {
		answer := f.answered(park())
		f.monitor.await(3, "Get")
		return func() {
			done := f.inBackground(func() { f.modernCall(1, "ask_parked", answer) })
			release := <-f.waiting
			f.monitor.await(readsOfAnswered, "Get")
			release()
			<-done
		}
	}
	all["`subscriptions/listen` for lists and resources"] = func() func() {
		return func() { f.listen(0, `"toolsListChanged":true,"resourceSubscriptions":["note://a"]`) }
	}
}

func (f *fleet) sessionCalls(all map[string]func() func()) {
	one := func(replica int, method, params string) func() func() {
		return func() func() {
			s := f.session()
			return func() { s.request(replica, method, params) }
		}
	}
	all["`initialize`"] = func() func() {
		return func() { f.text(f.send(0, http.MethodPost, initializeBody)) }
	}
	all["`notifications/initialized`"] = func() func() {
		s := f.begin()
		return func() { s.notify(0, "initialized", "") }
	}
	all["first request at a replica"] = func() func() {
		s := f.begin()
		s.notify(0, "initialized", "")
		return func() { s.request(1, "tools/list", "") }
	}
	all["`tools/call`, JSON response"] = one(0, "tools/call", `"name":"echo"`)
	all["`tools/call`, event stream with the response only"] = func() func() {
		s := f.session()
		return func() { f.text(s.open(0, "tools/call", `"name":"echo"`, "Accept", "text/event-stream")) }
	}
	all["`tools/call` with three progress notifications"] = one(0, "tools/call",
		`"name":"report","_meta":{"progressToken":1}`)
	question := func(replica int) func() func() {
		return func() func() {
			s := f.session()
			return func() {
				stream := s.open(0, "tools/call", `"name":"ask"`)
				s.respond(replica, f.until(stream, "elicitation/create"))
				f.text(stream)
			}
		}
	}
	all["`tools/call` with a question, answered at its replica"] = question(0)
	all["`tools/call` with a question, answered at another replica"] = question(1)
	all["`resources/subscribe`"] = one(0, "resources/subscribe", `"uri":"note://a"`)
	all["`resources/unsubscribe`"] = func() func() {
		s := f.session()
		s.subscribe(0, "note://a")
		return func() { s.request(0, "resources/unsubscribe", `"uri":"note://a"`) }
	}
	all["`logging/setLevel`"] = one(0, "logging/setLevel", `"level":"error"`)
	all["`DELETE`"] = func() func() {
		s := f.session()
		return func() { f.text(s.send(0, http.MethodDelete, "", "Mcp-Session-Id", s.id)) }
	}
	all["`DELETE`, 2024-11-05, which has no resumable streams"] = func() func() {
		body := strings.Replace(initializeBody, "2025-11-25", "2024-11-05", 1)
		id := f.send(0, http.MethodPost, body).Header.Get("Mcp-Session-Id")
		return func() { f.text(f.send(0, http.MethodDelete, "", "Mcp-Session-Id", id)) }
	}
}

func (f *fleet) streamCalls(all map[string]func() func()) {
	// A call that has sent three notifications and waits.
	waiting := func() (s session, stream *http.Response, first wiretest.Event, release func()) {
		s = f.session()
		stream = s.open(0, "tools/call", `"name":"report_and_wait","_meta":{"progressToken":1}`)
		first = f.until(stream, `"progress":1`)
		return s, stream, first, <-f.waiting
	}
	all["`notifications/cancelled` at another replica"] = func() func() {
		s, stream, _, _ := waiting()
		return func() {
			s.notify(1, "cancelled", `"requestId":1`)
			f.text(stream)
		}
	}
	all["resumption while the call runs, at its replica, until the response"] = func() func() {
		s, stream, first, release := waiting()
		stream.Body.Close()
		return func() {
			again := s.get(0, first)
			f.until(again, `"progress":3`)
			release()
			f.until(again, `"result"`)
		}
	}
	all["resumption after the call, at another replica"] = func() func() {
		s, stream, first, release := waiting()
		release()
		f.text(stream)
		return func() { f.text(s.get(1, first)) }
	}
	all["GET stream"] = func() func() {
		s := f.session()
		return func() { s.get(0, wiretest.Event{}) }
	}
	all["update of a resource, notification on a GET stream"] = func() func() {
		s := f.session()
		s.subscribe(0, "note://a")
		stream := s.listen(0)
		return func() {
			f.replicas[0].ResourceUpdated("note://a")
			f.until(stream, "notifications/resources/updated")
		}
	}
}

func (f *fleet) modernTasks(all map[string]func() func()) {
	create := func(tool string) string {
		f.t.Helper()
		return f.find(`"taskId":"([^"]*)"`, f.modernCall(0, tool, ""))
	}
	ask := func(replica int, method, id, more string) string {
		f.t.Helper()
		return f.text(f.modern(replica, method, id, fmt.Sprintf(`"taskId":%q%s`, id, more)))
	}
	request := func(replica int, method string) func() func() {
		return func() func() {
			id := create("job")
			<-f.waiting
			return func() { ask(replica, method, id, "") }
		}
	}
	all["creation"] = func() func() {
		return func() {
			create("job")
			<-f.waiting
		}
	}
	all["end of the handler"] = func() func() {
		create("job")
		return <-f.waiting
	}
	all["`tasks/get` at the replica that runs the task"] = request(0, "tasks/get")
	all["`tasks/get` at another replica"] = request(1, "tasks/get")
	all["`tasks/get` after the end"] = func() func() {
		id := create("job")
		(<-f.waiting)()
		f.monitor.await(1, "Remove") // the last operation of the replica
		return func() { ask(1, "tasks/get", id, "") }
	}
	all["question of the handler"] = func() func() {
		create("job_with_question")
		return <-f.waiting
	}
	all["`tasks/update` at another replica, until the handler has the answer"] = func() func() {
		id := create("job_with_question")
		(<-f.waiting)()
		f.monitor.await(2, "Get") // the replica has read the task with its question
		state := ask(0, "tasks/get", id, "")
		return func() {
			ask(1, "tasks/update", id, `,"inputResponses":{`+f.answers(state)+`}`)
			<-f.waiting
		}
	}
	all["`tasks/cancel` at another replica, until the handler has ended"] = request(1, "tasks/cancel")
	all["`subscriptions/listen` for a task, until its first state"] = func() func() {
		id := create("job")
		<-f.waiting
		return func() { f.until(f.listen(1, fmt.Sprintf(`"taskIds":[%q]`, id)), `"method":"notifications/tasks"`) }
	}
}

func (f *fleet) sessionTasks(all map[string]func() func()) {
	create := func() (s session, id string) {
		f.t.Helper()
		s = f.session()
		f.monitor.begin()
		id = f.find(`"taskId":"([^"]*)"`, s.request(0, "tools/call", `"name":"job","task":{}`))
		return s, id
	}
	request := func(replica int, method string) func() func() {
		return func() func() {
			s, id := create()
			<-f.waiting
			f.monitor.await(1, "Get") // the replica's Get for a notification about the status
			return func() { s.request(replica, method, fmt.Sprintf(`"taskId":%q`, id)) }
		}
	}
	all["creation in a session"] = func() func() {
		s := f.session()
		return func() {
			s.request(0, "tools/call", `"name":"job","task":{}`)
			<-f.waiting
		}
	}
	all["`tasks/get` in a session, at another replica"] = request(1, "tasks/get")
	all["`tasks/result` after the end"] = func() func() {
		s, id := create()
		(<-f.waiting)()
		f.monitor.awaitSequence("Remove", "Get") // for a notification about the status
		return func() { s.request(1, "tasks/result", fmt.Sprintf(`"taskId":%q`, id)) }
	}
	all["`tasks/cancel` in a session, at another replica, until the handler has ended"] = request(1, "tasks/cancel")
}

// operationsTimeout limits the wait for the operations of a call. It takes this long to notice that a call
// needs fewer operations than the table says.
const operationsTimeout = 2 * time.Second

// maxRepeats limits how often a call is measured again because a replica was busy with its lease in the
// meantime.
const maxRepeats = 5

// Each kind of call takes the round trips of the table.
func TestCallsTakeTheRoundTripsOfTheTable(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		redis := start(t, program)
		m := newMonitor(t, redis)
		f := newFleet(t, redis, m)
		for replica := range f.replicas {
			f.modernCall(replica, "echo", "") // a server starts with its first request
		}
		// Each replica subscribes to two topics, for announcements and forwarded messages, and registers itself.
		m.await(2*len(f.replicas), "Subscribe")
		m.await(len(f.replicas), "Add")
		calls := f.calls()
		for _, c := range callTable {
			if c.isHeading() {
				continue
			}
			prepare := calls[c.call]
			if prepare == nil {
				t.Errorf("%s: the test does not make this call", c.call)
				continue
			}
			delete(calls, c.call)
			for repeat := 1; ; repeat++ {
				m.begin()
				do := prepare()
				got, exact := m.measure(do, c.operations)
				f.endSessions()
				if !exact && repeat < maxRepeats {
					continue
				}
				must.CheckEqual(t, got, c.operations, c.call)
				break
			}
		}
		for call := range calls {
			t.Errorf("the table does not have %s", call)
		}
	})
}

// measure makes a call and returns its operations. It also waits for operations that follow the response.
// exact reports whether all operations belong to the call.
func (m *monitor) measure(call func(), want string) (operations string, exact bool) {
	m.t.Helper()
	m.begin()
	call()
	most := callCost{operations: want}.trips()
	ctx, cancel := context.WithTimeout(m.t.Context(), operationsTimeout)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		m.update()
		if operations = summary(m.window); operations == want || len(m.window) > most {
			return operations, !m.occupied
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return operations, !m.occupied
		}
	}
}

var (
	ctx     = context.Background()
	hour    = store.PutOptions{TTL: time.Hour}
	entries = store.AppendOptions{TTL: time.Hour, MaxEntries: 10, MaxBytes: 10_000}
	stream  = store.StreamKey{Group: "local/session/1", Stream: "s"}
)

// Every operation is one round trip.
func TestOperationsTakeOneRoundTrip(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		o := at(p.addr)
		o.Conns = 1
		s := connect(t, o)
		var version uint64
		seq := uint64(0)
		put := func(opt store.PutOptions) error {
			v, err := s.Put(ctx, "k", []byte("value"), opt)
			if err == nil {
				version = v
			}
			return err
		}
		operations := []struct {
			name string
			do   func() error
		}{
			{"Put", func() error { return put(hour) }},
			{"Put if the version matches", func() error {
				return put(store.PutOptions{TTL: time.Hour, IfVersion: version})
			}},
			{"Put if absent", func() error {
				if err := put(store.PutOptions{TTL: time.Hour, IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
					return fmt.Errorf("got %v, want ErrConflict", err)
				}
				return nil
			}},
			{"Get", func() error { _, err := s.Get(ctx, "k"); return err }},
			{"Touch", func() error { _, err := s.Touch(ctx, "k", 2*time.Hour); return err }},
			{"Delete", func() error { return s.Delete(ctx, "other") }},
			{"Add", func() error { return s.Add(ctx, "set", "member", time.Hour, 10) }},
			{"List", func() error { _, err := s.List(ctx, "set", "", 10); return err }},
			{"Remove", func() error { return s.Remove(ctx, "set", "other") }},
			{"Append", func() error { seq++; return s.Append(ctx, stream, seq, []byte("entry"), entries) }},
			{"ReadAfter", func() error { _, err := s.ReadAfter(ctx, stream, seq-1); return err }},
			{"Drop", func() error { return s.Drop(ctx, "other") }},
			{"Publish", func() error { return s.Publish(ctx, "t", []byte("message")) }},
		}
		const rounds = 11 // the first round sends the scripts
		for round := range rounds {
			for _, o := range operations {
				before := p.trips.Load()
				must.Do(t, o.do(), o.name)
				n := p.trips.Load() - before
				must.CheckThat(t, round <= 0 || n == 1, "%s takes %d round trips, want 1", o.name, n)
			}
		}
	})
}

// The number of connections does not depend on the number of operations and subscriptions.
func TestConnectionsAreFew(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		o := at(p.addr)
		o.Conns = 4
		s := connect(t, o)
		var using sync.WaitGroup
		for i := range 200 {
			using.Go(func() {
				key := fmt.Sprint("k", i)
				subscription, err := s.Subscribe(ctx, key, 1)
				if err != nil {
					t.Error(err)
					return
				}
				defer subscription.Close()
				for range 10 {
					must.Check(t, must.Err(s.Put(ctx, key, []byte(strings.Repeat("x", 1000)), hour)))
				}
			})
		}
		using.Wait()
		n := p.opened.Load()
		must.CheckThat(t, n <= 5, "the store has opened %d connections, want at most 4 and one for subscriptions", n)
	})
}
