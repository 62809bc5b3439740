package httpwire

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// T23: one timer sends the keep-alive comments of streams that began at different times.
// It stops when there are no streams.
func TestT23TrackerKeepsEveryStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 16 * time.Second
		var requests tracker
		type one struct {
			w *reader
			f *trackedRequest
		}
		var all []one
		for range 3 {
			w := newReader()
			f := &trackedRequest{stream: &eventStream{w: w, ctx: t.Context()}}
			requests.watch(f, every)
			requests.watch(&trackedRequest{}, every) // a request without a stream
			all = append(all, one{w, f})
			time.Sleep(5*time.Second + time.Millisecond) // between two ticks
		}
		expect := func(when string, comments ...int) {
			t.Helper()
			synctest.Wait()
			for i, want := range comments {
				if got := len(all[i].w.text()) / len(":\n\n"); got != want {
					t.Errorf("%s: stream %d got %d comments, want %d", when, i, got, want)
				}
			}
		}
		expect("after 15 s", 0, 0, 0)
		time.Sleep(time.Second - 3*time.Millisecond)
		expect("after 16 s", 1, 0, 0)
		time.Sleep(5 * time.Second)
		expect("after 21 s", 1, 1, 0)
		requests.forget(all[1].f)
		time.Sleep(11 * time.Second)
		expect("after 32 s", 2, 1, 1)
		requests.forget(all[0].f)
		requests.forget(all[2].f)
		time.Sleep(every)
		expect("after the end", 2, 1, 1)
		requests.mu.Lock()
		if requests.armed {
			t.Error("the timer runs without a stream")
		}
		requests.mu.Unlock()

		w := newReader()
		requests.watch(&trackedRequest{stream: &eventStream{w: w, ctx: t.Context()}}, every)
		time.Sleep(every)
		synctest.Wait()
		if w.text() != ":\n\n" {
			t.Errorf("after the timer restarted: got %q", w.text())
		}
	})
}

func TestTrackerIsIdleWhenTheLastRequestLeaves(t *testing.T) {
	var tr tracker
	for range 2 {
		if !tr.enter() {
			t.Fatal("rejected")
		}
	}
	closing := tr.closingSignal()
	idle := tr.close()
	<-closing
	<-tr.closingSignal()
	if tr.enter() {
		t.Error("enter succeeds after close")
	}
	tr.leave()
	select {
	case <-idle:
		t.Error("idle with one request in flight")
	default:
	}
	tr.leave()
	<-idle
	<-tr.close()
}

func TestTrackerLimitsRequestsInFlight(t *testing.T) {
	tr := tracker{n: maxRequests - 1}
	if !tr.enter() {
		t.Fatal("rejected below the limit")
	}
	if tr.enter() {
		t.Error("accepted above the limit")
	}
	tr.leave()
	if !tr.enter() {
		t.Error("rejected after a request has ended")
	}
}

// A request that arrives after cancelAll is cancelled too.
func TestTrackerCancelsLateRequests(t *testing.T) {
	var tr tracker
	early, cancel := context.WithCancelCause(t.Context())
	tr.watch(&trackedRequest{cancel: cancelFunc(cancel)}, time.Second)
	forgotten, cancel2 := context.WithCancelCause(t.Context())
	f := &trackedRequest{cancel: cancelFunc(cancel2)}
	tr.watch(f, time.Second)
	tr.watch(&trackedRequest{}, time.Second)
	tr.forget(f)
	tr.cancelAll()
	late, cancel3 := context.WithCancelCause(t.Context())
	tr.watch(&trackedRequest{cancel: cancelFunc(cancel3)}, time.Second)
	if !errors.Is(context.Cause(early), errShutdown) || !errors.Is(context.Cause(late), errShutdown) || forgotten.Err() != nil {
		t.Errorf("%v, %v, %v", context.Cause(early), context.Cause(late), forgotten.Err())
	}
	cancel2(nil)
}
