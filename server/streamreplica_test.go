package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

func TestEventsWakeTheFollowersOfTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		x := f.resume(1, session, call.frames()[0].ID)
		started, before := time.Now(), f.stores[1].reads.Load()
		for i := range 100 {
			f.progress(2+i, 2+i)
			must.Equal(t, len(x.frames()), 1+i)
		}
		waited := time.Since(started)
		must.CheckThat(t, waited <= 0, "the events arrive after %v", waited)
		time.Sleep(time.Minute)
		n := f.stores[1].reads.Load() - before
		must.CheckThat(t, n <= 100+2*16, "%d readings of the log for 100 events and one minute", n)
		close(f.steps)
		wantNumbered(t, x.frames(), 2, 101)
		wantAnswer(t, x.frames(), 102)
		must.CheckThat(t, x.ended(), "the stream has not ended")
	})
}

// The connection that took over the stream of another receives its events at once.
func TestEventsWakeTheNextConnectionOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		id := call.frames()[0].ID
		before, x := f.resume(1, session, id), f.resume(1, session, id)
		must.CheckThat(t, before.ended(), "the first connection has not ended")
		started := time.Now()
		f.progress(2, 2)
		wantNumbered(t, x.frames(), 2, 2)
		waited := time.Since(started)
		must.CheckThat(t, waited <= 0, "the event arrives after %v", waited)
		close(f.steps)
	})
}

// An event may be logged after the follower has read the log and before the replica of the call knows of it.
func TestEventsAtTheBeginningOfAFollowerAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, n := make(chan struct{}), 0
		bus := newHookedStore(func(_ context.Context, op, _ string, _ []byte) error {
			if op == "publish" {
				<-gate
			}
			return nil
		})
		f := newBubbleFleet(t, 2, func(s *server.Server) {
			if n++; n == 2 {
				s.Store = store.Join(s.Store, s.Store, s.Store, bus)
			} else {
				s.Store = store.Join(s.Store, s.Store, s.Store, bus.Store)
			}
		})
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		x := f.resume(1, session, call.frames()[0].ID)
		f.progress(2, 2)
		must.Equal(t, len(x.frames()), 0)
		close(gate)
		started := time.Now()
		wantNumbered(t, x.frames(), 2, 2)
		waited := time.Since(started)
		must.CheckThat(t, waited <= 0, "the event arrives after %v", waited)
		close(f.steps)
	})
}

// A follower reads the log at intervals, because the Bus may lose announcements.
func TestFollowersReceiveEventsWithoutTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Store: store.NewMemory()}
		f := newBubbleFleet(t, 2, func(s *server.Server) { s.Store = store.Join(s.Store, s.Store, s.Store, bus) })
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		bus.down.Store(true)
		x := f.resume(1, session, call.frames()[0].ID)
		close(f.steps)
		time.Sleep(5 * time.Second)
		wantAnswer(t, x.frames(), 2)
	})
}

// When the replica of a call ends, the client receives one error for its request within the lease, wherever
// and whenever it resumes the stream.
func TestStreamsOfAReplicaThatHasEndedEndWithOneError(t *testing.T) {
	const lost = `"error":{"code":-32603,"message":"the server process that served the request has ended`
	for _, version := range resumableRevisions {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 4)
			session := f.session(version)
			body, want := stepCall, `{"jsonrpc":"2.0","id":1,`+lost
			if version == "2025-03-26" {
				body = "[" + stepCall +
					`,{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"step",` +
					`"_meta":{"progressToken":2}}}]`
				want = `[{"jsonrpc":"2.0","id":1,` + lost
			}
			call := f.open(0, http.MethodPost, body, session...)
			f.progress(1, 1) // of any request of the batch
			first := call.frames()
			last := first[len(first)-1].ID
			followers := []*exchange{f.resume(1, session, last), f.resume(2, session, last)}
			f.stores[0].cut.Store(true)
			started := time.Now()
			for time.Since(started) < time.Minute && !(followers[0].ended() && followers[1].ended()) {
				time.Sleep(time.Second)
			}
			waited := time.Since(started)
			must.CheckThat(t, waited <= 20*time.Second, "the streams end after %v", waited)
			later := f.resume(3, session, last)
			for _, x := range append(followers, later) {
				got := x.frames()
				must.CheckThat(t, len(got) == 1 && got[0].Seq() == "2" && strings.HasPrefix(got[0].Data, want),
					"%s: %v", version, got)
				if version == "2025-03-26" && !strings.Contains(got[0].Data, `,{"jsonrpc":"2.0","id":"b",`+lost) {
					t.Errorf("the other request of the batch: %v", got)
				}
			}
			must.CheckThat(t, later.ended(), "a later stream does not end")
			// The replica was only slow. Its client must not receive a second response.
			before := len(call.body())
			f.stores[0].cut.Store(false)
			close(f.steps)
			if !call.ended() || len(call.body()) != before {
				t.Errorf("the client received a second response: %s", call.body()[before:])
			}
		})
	}
}

// A client that knows the stream but has not received an event can resume it at another replica.
func TestAStreamWithoutEventsIsResumedAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		f.servers[0].Limits.KeepAlive = 0
		session := f.session("2025-11-25")
		call := f.open(0, http.MethodPost, stepCall, session...)
		time.Sleep(20 * time.Second) // until the first keep-alive comment
		got := call.frames()
		if len(got) != 1 || got[0].ID == "" {
			t.Fatalf("the client does not know the stream: %s", call.body())
		}
		call.leave()
		time.Sleep(20 * time.Minute) // longer than events are stored
		x := f.resume(1, session, got[0].ID)
		if x.status() != http.StatusOK {
			t.Fatalf("%d %s", x.status(), x.body())
		}
		f.progress(1, 1)
		close(f.steps)
		if got := x.frames(); len(got) != 2 || !strings.Contains(got[0].Data, `"progress":1`) ||
			!strings.Contains(got[1].Data, `"id":1,"result"`) {
			t.Errorf("%v", got)
		}
	})
}

// The stream of a cancelled call ends without a response, also at another replica.
func TestTheStreamOfACancelledCallEndsAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 3)
		session := f.session("2025-06-18")
		call := f.open(0, http.MethodPost, stepCall, session...)
		f.progress(1, 1)
		x := f.resume(1, session, call.frames()[0].ID)
		f.open(2, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
			session...)
		if !x.ended() || len(x.frames()) != 0 {
			t.Errorf("the stream has not ended: %v", x.frames())
		}
	})
}

// failingLog is a Log whose next operations of Append fail.
type failingLog struct {
	*hookedStore
	fail    atomic.Int64 // how many fail
	applied atomic.Bool  // the first of them has an effect
	cause   atomic.Value // the error
}

func newFailingLog(memory store.Store) *failingLog {
	l := new(failingLog)
	l.hookedStore = &hookedStore{Store: memory, before: func(_ context.Context, op, _ string, _ []byte) error {
		if op != "append" || l.fail.Add(-1) < 0 || l.applied.Load() {
			return nil
		}
		return l.cause.Load().(error)
	}, after: func(_ context.Context, op, _ string, _ []byte) error {
		if op == "append" && l.applied.Swap(false) {
			return l.cause.Load().(error)
		}
		return nil
	}}
	return l
}

// failNext makes the next n operations of Append fail.
func (l *failingLog) failNext(n int64, cause error, applied bool) {
	l.cause.Store(fmt.Errorf("append: %w", cause))
	l.applied.Store(applied)
	l.fail.Store(n)
}

var errNotConnected = errors.New("not connected")

const unlogged = `"error":{"code":-32603,"message":"cannot resume the stream of the request: the server could not ` +
	`store an event`

// newFailingFleet returns two replicas, and the log of the first.
func newFailingFleet(t *testing.T) (*bubbleFleet, *failingLog) {
	memory, log := store.NewMemory(), (*failingLog)(nil)
	f := newBubbleFleet(t, 2, func(s *server.Server) {
		if s.Store = memory; log == nil {
			log = newFailingLog(memory)
			s.Store = log
		}
	})
	return f, log
}

// A client that has resumed the stream elsewhere receives one error soon, and not only when the log expires.
func TestAStreamWithAnUnloggedEventEndsWithOneErrorAtAnotherReplica(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed int64 // operations
		cause  error
		ended  bool // the call ends before the log is within reach
		within time.Duration
	}{
		{"one failure", 1, errNotConnected, false, 0},
		{"the log is out of reach for a while", 3, errNotConnected, false, 15 * time.Second},
		{"the call has ended", 3, errNotConnected, true, 15 * time.Second},
		{"a time-out", 1, context.DeadlineExceeded, false, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, log := newFailingFleet(t)
			session := f.session("2025-06-18")
			call := f.open(0, http.MethodPost, stepCall, session...)
			f.progress(1, 1)
			x := f.resume(1, session, call.frames()[0].ID)
			log.failNext(c.failed, c.cause, false)
			f.progress(2, 2)
			if c.ended {
				close(f.steps)
				synctest.Wait()
			}
			started := time.Now()
			for !x.ended() && time.Since(started) < time.Minute {
				time.Sleep(time.Second)
			}
			waited := time.Since(started)
			must.CheckThat(t, waited <= c.within, "%s: the stream ends after %v", c.name, waited)
			got := x.frames()
			must.CheckThat(t, len(got) == 1 && got[0].Seq() == "2" && strings.Contains(got[0].Data, `"id":1,`+unlogged),
				"%s: %v", c.name, got)
			if !c.ended { // the client at the first replica has not lost its connection
				close(f.steps)
				got := call.frames()
				must.CheckThat(t, strings.Contains(got[len(got)-1].Data, `"id":1,"result"`), "%s: %v", c.name, got)
			}
			again := f.resume(1, session, call.frames()[0].ID).frames()
			must.CheckThat(t, len(again) == 1 && strings.Contains(again[0].Data, unlogged),
				"%s: resumed again: %v", c.name, again)
		})
	}
}

// The store may execute an operation that has failed for the caller.
func TestAnEventWhoseAppendFailedAfterItsEffectArrivesOnce(t *testing.T) {
	for _, cause := range []error{errNotConnected, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			f, log := newFailingFleet(t)
			session := f.session("2025-06-18")
			call := f.open(0, http.MethodPost, stepCall, session...)
			f.progress(1, 1)
			log.failNext(1, cause, true)
			f.progress(2, 2)
			received := call.frames()
			wantNumbered(t, received, 1, 2)
			call.leave()
			last := received[len(received)-1].ID
			x := f.resume(1, session, last)
			if got := x.frames(); len(got) != 0 {
				t.Errorf("%v: a second time: %v", cause, got)
			}
			close(f.steps)
			time.Sleep(5 * time.Second)
			got := x.frames()
			want := `"id":1,"result"` // the log has all events
			if errors.Is(cause, context.DeadlineExceeded) {
				want = unlogged
			}
			must.CheckThat(t, len(got) == 1 && got[0].Seq() == "3" && strings.Contains(got[0].Data, want) && x.ended(),
				"%v: %v", cause, got)
		})
	}
}

// The client has received an event that is not in the log.
func TestAStreamIsResumedAfterAnUnloggedEvent(t *testing.T) {
	for _, terminated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, log := newFailingFleet(t)
			session := f.session("2025-06-18")
			call := f.open(0, http.MethodPost, stepCall, session...)
			f.progress(1, 1)
			log.failNext(1, context.DeadlineExceeded, false)
			f.progress(2, 3)
			received := call.frames()
			call.leave()
			if terminated {
				time.Sleep(5 * time.Second)
			}
			for range 2 {
				x := f.resume(1, session, received[1].ID)
				if got := x.frames(); len(got) != 1 || !strings.Contains(got[0].Data, unlogged) || !x.ended() {
					t.Errorf("terminated %v: %v\n%d %s", terminated, got, x.status(), x.body())
				}
			}
			must.CheckEqual(t, received[2].ID, "")
			if x := f.resume(1, session, strings.Replace(received[1].ID, ".2", ".7",
				1)); x.status() != http.StatusBadRequest {
				t.Errorf("an event that was not sent: %d %s", x.status(), x.body())
			}
			close(f.steps)
		})
	}
}

// The ids of the requests are in the log, so that another replica can answer them. If they are too long for it, the
// client receives no event id, and knows that it cannot resume the stream.
func TestABatchWithLongIDsHasAStreamThatCannotBeResumed(t *testing.T) {
	for _, c := range []struct {
		requests  int
		resumable bool
	}{{15, true}, {20, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 2)
			session := f.session("2025-03-26")
			batch := []string{stepCall}
			for i := range c.requests {
				batch = append(batch, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%0250d","method":"ping"}`, i))
			}
			x := f.open(0, http.MethodPost, "["+strings.Join(batch, ",")+"]", session...)
			f.progress(1, 1)
			got := x.frames()
			must.CheckThat(t, len(got) == 1 && (got[0].ID != "") == c.resumable, "%d long ids: %v", c.requests, got)
			if c.resumable {
				follower := f.resume(1, session, x.frames()[0].ID)
				f.stores[0].cut.Store(true)
				time.Sleep(30 * time.Second)
				if got := follower.frames(); len(got) != 1 ||
					strings.Count(got[0].Data, "the server process that served the request has ended") != c.requests+1 {
					t.Errorf("%d long ids: %v", c.requests, got)
				}
				f.stores[0].cut.Store(false)
			}
			close(f.steps)
			if got := x.frames(); !c.resumable && (len(got) != 2 || got[1].ID != "" ||
				strings.Count(got[1].Data, `"result"`) != c.requests+1) {
				t.Errorf("%d long ids: %v", c.requests, got)
			}
		})
	}
}
