package httpserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// track registers a request whose body has been read.
func track(t *tracker, stream *eventStream, every time.Duration) *trackedRequest {
	f := new(trackedRequest)
	t.begin(f, new(eventStream), every)
	_ = t.enter(f)
	t.watch(f, nil, stream)
	return f
}

// Rule T23: one timer sends the keep-alive comments of streams that began at different times.
// It stops when there are no streams.
func TestTrackerKeepsEveryStreamAlive(t *testing.T) {
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
			f := track(&requests, &eventStream{w: w, ctx: t.Context()}, every)
			track(&requests, nil, every)
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
		requests.leave(all[1].f)
		time.Sleep(11 * time.Second)
		expect("after 32 s", 2, 1, 1)
		requests.leave(all[0].f)
		requests.leave(all[2].f)
		time.Sleep(every)
		expect("after the end", 2, 1, 1)
		requests.mu.Lock()
		if requests.armed {
			t.Error("the timer runs without a stream")
		}
		requests.mu.Unlock()

		w := newReader()
		track(&requests, &eventStream{w: w, ctx: t.Context()}, every)
		time.Sleep(every)
		synctest.Wait()
		if w.text() != ":\n\n" {
			t.Errorf("after the timer restarted: got %q", w.text())
		}
	})
}

func TestTrackerIsIdleWhenTheLastRequestLeaves(t *testing.T) {
	var tr tracker
	all := []*trackedRequest{track(&tr, nil, time.Minute), track(&tr, nil, time.Minute)}
	reading := new(trackedRequest)
	tr.begin(reading, new(eventStream), time.Minute) // Shutdown does not wait for it
	closing := tr.closingSignal()
	idle := tr.close()
	<-closing
	<-tr.closingSignal()
	if err := tr.enter(reading); err != errShutdown {
		t.Errorf("enter after close: %v", err)
	}
	tr.leave(all[0])
	select {
	case <-idle:
		t.Error("idle with one request in flight")
	default:
	}
	tr.leave(all[1])
	<-idle
	<-tr.close()
	tr.leave(reading)
	if tr.requests != nil {
		t.Error("a request is registered after it has left")
	}
}

func TestTrackerLimitsRequestsInFlight(t *testing.T) {
	tr := tracker{n: maxRequests - 1}
	last := track(&tr, nil, time.Minute)
	if !last.entered {
		t.Fatal("rejected below the limit")
	}
	more := track(&tr, nil, time.Minute)
	if more.entered {
		t.Error("accepted above the limit")
	}
	tr.leave(more)
	tr.leave(last)
	if !track(&tr, nil, time.Minute).entered {
		t.Error("rejected after a request has ended")
	}
}

// A request that arrives after cancelAll is cancelled too.
func TestTrackerCancelsLateRequests(t *testing.T) {
	var tr tracker
	begin := func() (context.Context, *trackedRequest) {
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		f := track(&tr, nil, time.Second)
		tr.watch(f, cancelFunc(cancel), nil)
		return ctx, f
	}
	early, _ := begin()
	ended, f := begin()
	track(&tr, nil, time.Second)
	tr.leave(f)
	tr.cancelAll()
	late, _ := begin()
	if !errors.Is(context.Cause(early), errShutdown) || !errors.Is(context.Cause(late), errShutdown) || ended.Err() != nil {
		t.Errorf("%v, %v, %v", context.Cause(early), context.Cause(late), ended.Err())
	}
}
