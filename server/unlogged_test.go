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

	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// failingLog is a Log whose next operations of Append fail.
type failingLog struct {
	*store.Memory
	fail    atomic.Int64 // how many fail
	applied atomic.Bool  // the first of them has an effect
	cause   atomic.Value // the error
}

func (l *failingLog) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
	if l.fail.Add(-1) < 0 {
		return l.Memory.Append(ctx, key, seq, entry, opt)
	}
	if l.applied.Swap(false) {
		if err := l.Memory.Append(ctx, key, seq, entry, opt); err != nil {
			return err
		}
	}
	return l.cause.Load().(error)
}

// failNext makes the next n operations of Append fail.
func (l *failingLog) failNext(n int64, cause error, applied bool) {
	l.cause.Store(fmt.Errorf("append: %w", cause))
	l.applied.Store(applied)
	l.fail.Store(n)
}

var errNotConnected = errors.New("not connected")

const unlogged = `"error":{"code":-32603,"message":"cannot resume the stream of the request: the server could not store an event`

// newFailingFleet returns two replicas, and the log of the first.
func newFailingFleet(t *testing.T) (*bubbleFleet, *failingLog) {
	memory, log := store.NewMemory(store.MemoryOptions{}), (*failingLog)(nil)
	f := newBubbleFleet(t, 2, func(s *server.Server) {
		if s.KV, s.Log, s.Bus = memory, memory, memory; log == nil {
			log = &failingLog{Memory: memory}
			s.Log = log
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
			if waited := time.Since(started); waited > c.within {
				t.Errorf("%s: the stream ends after %v", c.name, waited)
			}
			if got := x.frames(); len(got) != 1 || got[0].Seq() != "2" || !strings.Contains(got[0].Data, `"id":1,`+unlogged) {
				t.Errorf("%s: %v", c.name, got)
			}
			if !c.ended { // the client at the first replica has not lost its connection
				close(f.steps)
				if got := call.frames(); !strings.Contains(got[len(got)-1].Data, `"id":1,"result"`) {
					t.Errorf("%s: %v", c.name, got)
				}
			}
			if again := f.resume(1, session, call.frames()[0].ID).frames(); len(again) != 1 || !strings.Contains(again[0].Data, unlogged) {
				t.Errorf("%s: resumed again: %v", c.name, again)
			}
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
			if len(got) != 1 || got[0].Seq() != "3" || !strings.Contains(got[0].Data, want) || !x.ended() {
				t.Errorf("%v: %v", cause, got)
			}
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
			if received[2].ID != "" {
				t.Errorf("an event after it has the id %s", received[2].ID)
			}
			if x := f.resume(1, session, strings.Replace(received[1].ID, ".2", ".7", 1)); x.status() != http.StatusBadRequest {
				t.Errorf("an event that was not sent: %d %s", x.status(), x.body())
			}
			close(f.steps)
		})
	}
}

// The ids of the requests are in the log, so that another replica can answer them. If they are too long for it, the client
// receives no event id, and knows that it cannot resume the stream.
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
			if got := x.frames(); len(got) != 1 || (got[0].ID != "") != c.resumable {
				t.Errorf("%d long ids: %v", c.requests, got)
			}
			if c.resumable {
				follower := f.resume(1, session, x.frames()[0].ID)
				f.stores[0].cut.Store(true)
				time.Sleep(30 * time.Second)
				if got := follower.frames(); len(got) != 1 || strings.Count(got[0].Data, "the server process that served the request has ended") != c.requests+1 {
					t.Errorf("%d long ids: %v", c.requests, got)
				}
				f.stores[0].cut.Store(false)
			}
			close(f.steps)
			if got := x.frames(); !c.resumable && (len(got) != 2 || got[1].ID != "" || strings.Count(got[1].Data, `"result"`) != c.requests+1) {
				t.Errorf("%d long ids: %v", c.requests, got)
			}
		})
	}
}
