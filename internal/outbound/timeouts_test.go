package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// cancelled returns the cancellation that was sent.
func cancelled(t *testing.T, w *wire) (id jsonrpc.ID, reason string) {
	t.Helper()
	select {
	case m := <-w.sent:
		must.Equal(t, m.Method, mcp.NotificationCancelled, m.Raw)
		must.Equal(t, m.Kind, jsonrpc.Notification, m.Raw)
		raw, _ := m.Params.Get("requestId")
		must.Do(t, id.UnmarshalJSON(raw), m.Raw)
		raw, _ = m.Params.Get("reason")
		return id, jsonrpc.Unquote(raw)
	default:
		t.Fatal("no cancellation was sent")
	}
	return id, ""
}

// took fails the test unless exactly d has passed since start.
func took(t *testing.T, start time.Time, d time.Duration) {
	t.Helper()
	must.CheckEqual(t, time.Since(start), d)
}

// Rule J16: after the time-out the peer is notified, and a late response is ignored.
func TestRequestEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w, NotifyCancelled: true}
		start := time.Now()
		got := do(t.Context(), o, &outbound.Request{Method: "tools/call", Timeout: time.Second, MaxTimeout: time.Hour})
		id := (<-w.sent).ID
		r := <-got
		took(t, start, time.Second)
		var timeout *call.TimeoutError
		must.CheckThat(t, errors.As(r.err, &timeout) &&
			*timeout == (call.TimeoutError{Method: "tools/call", After: time.Second}), "got %v", r.err)
		must.CheckIs(t, r.err, context.DeadlineExceeded)
		about, reason := cancelled(t, w)
		must.CheckEqual(t, about, id)
		must.CheckEqual(t, reason, "no response in time")
		must.CheckThat(t, !o.Receive(result(t, id, "late")), "the late response was taken")
		w.none()
	})
}

func TestRequestWithoutTimeoutsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		got := do(t.Context(), o, &outbound.Request{Method: "a"})
		id := (<-w.sent).ID
		time.Sleep(1000 * time.Hour)
		o.Receive(result(t, id, "late"))
		must.Check(t, (<-got).err)
	})
}

// 2026-07-28, basic/patterns/cancellation, Timeouts: progress restarts the time-out, up to a maximum.
func TestProgressExtendsTheTimeoutUpToTheMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w, NotifyCancelled: true}
		start := time.Now()
		reports := 0
		got := do(t.Context(), o, &outbound.Request{
			Method: "a", Timeout: time.Second, MaxTimeout: 10 * time.Second,
			OnProgress: func(outbound.Progress) { reports++ },
		})
		id := (<-w.sent).ID
		for i := range 13 {
			time.Sleep(900 * time.Millisecond)
			o.Receive(progress(t, id, i))
		}
		r := <-got
		want := (call.TimeoutError{Method: "a", After: 10 * time.Second})
		must.CheckThat(t, errors.Is(r.err, context.DeadlineExceeded) && r.err.Error() == want.Error(),
			"got %v, want %v", r.err, &want)
		must.CheckEqual(t, reports, 11)
		took(t, start, 13*900*time.Millisecond) // the test needed longer than the request
		cancelled(t, w)
	})
}

func TestTimeoutStartsAtTheLastProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		start := time.Now()
		got := do(t.Context(), o, &outbound.Request{Method: "a", Timeout: time.Second,
			OnProgress: func(outbound.Progress) {}})
		id := (<-w.sent).ID
		time.Sleep(900 * time.Millisecond)
		o.Receive(progress(t, id, 1))
		r := <-got
		took(t, start, 1900*time.Millisecond)
		var timeout *call.TimeoutError
		must.CheckThat(t, errors.As(r.err, &timeout) && timeout.After == time.Second, "got %v", r.err)
	})
}

// Progress of other requests, and progress without OnProgress, does not restart the time-out.
func TestProgressOfOtherRequestsDoesNotExtendTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		start := time.Now()
		got := do(t.Context(), o, &outbound.Request{Method: "a", Timeout: time.Second})
		id := (<-w.sent).ID
		for range 9 {
			time.Sleep(100 * time.Millisecond)
			o.Receive(progress(t, id, 1))
			o.Receive(progress(t, jsonrpc.IntID(99), 1))
		}
		<-got
		took(t, start, time.Second)
	})
}

func TestMaximumTimeoutWithoutTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t)
			o := &outbound.Requests{Wire: w}
			start := time.Now()
			_, err := o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: timeout, MaxTimeout: time.Minute})
			took(t, start, time.Minute)
			must.CheckThat(t, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "1m0s"),
				"got %v", err)
		})
	}
}

// Until the peer has started, time-outs are extended by the allowance.
func TestTimeoutsStartWhenThePeerHasStarted(t *testing.T) {
	const allowance = time.Minute
	for _, test := range []struct {
		name    string
		starts  time.Duration // 0: has already started; negative: never starts
		timeout time.Duration
		maximum time.Duration
		want    time.Duration
	}{
		{"started", 0, time.Second, time.Hour, time.Second},
		{"slow", 10 * time.Second, time.Second, time.Hour, 11 * time.Second},
		{"never", -1, time.Second, time.Hour, 61 * time.Second},
		{"after the allowance", 2 * time.Minute, time.Second, time.Hour, 61 * time.Second},
		{"only a maximum", 10 * time.Second, 0, time.Second, 11 * time.Second},
		{"a maximum below the time-out", 10 * time.Second, 5 * time.Second, time.Second, 11 * time.Second},
	} {
		for _, onProgress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
			t.Run(fmt.Sprint(test.name, " ", onProgress != nil), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWire(t)
					started := make(chan struct{})
					o := &outbound.Requests{Wire: w, Started: started, StartBy: time.Now().Add(allowance)}
					if test.starts >= 0 {
						timer := time.AfterFunc(test.starts, func() { close(started) })
						defer timer.Stop()
					}
					synctest.Wait()
					start := time.Now()
					_, err := o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: test.timeout,
						MaxTimeout: test.maximum,
						OnProgress: onProgress})
					took(t, start, test.want)
					must.CheckIs(t, err, context.DeadlineExceeded)
				})
			})
		}
	}
}

// Requests that follow one another share the time to start.
func TestSilentPeerHasOneAllowanceForAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w, Started: make(chan struct{}), StartBy: time.Now().Add(20 * time.Second)}
		start := time.Now()
		for _, want := range []time.Duration{30 * time.Second, 40 * time.Second} {
			_, err := o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: 10 * time.Second})
			took(t, start, want)
			must.CheckIs(t, err, context.DeadlineExceeded)
			<-w.sent
		}
	})
}

func TestResponseDuringTheAllowanceIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w, Started: make(chan struct{}), StartBy: time.Now().Add(time.Minute)}
		got := do(t.Context(), o, &outbound.Request{Method: "a", Timeout: time.Second})
		id := (<-w.sent).ID
		time.Sleep(30 * time.Second)
		o.Receive(result(t, id, ""))
		must.Check(t, (<-got).err)
	})
}

// Rule J15: the peer receives one cancellation, without the caller's reason.
func TestCancellationIsSentOnce(t *testing.T) {
	for _, onProgress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t)
			o := &outbound.Requests{Wire: w, NotifyCancelled: true}
			ctx, cancel := context.WithCancelCause(t.Context())
			got := do(ctx, o, &outbound.Request{Method: "a", Timeout: time.Minute, OnProgress: onProgress})
			id := (<-w.sent).ID
			why := errors.New("login with hunter2 failed")
			cancel(why)
			cancel(errors.New("second cancellation"))
			must.CheckIs(t, (<-got).err, why)
			about, reason := cancelled(t, w)
			must.CheckThat(t, about == id && !strings.Contains(reason, "hunter2") && reason != "",
				"cancelled %s: %q", about, reason)
			w.none()
		})
	}
}

func TestRequestsThatMustNotBeCancelled(t *testing.T) {
	for name, test := range map[string]struct {
		notify, uncancellable bool
		err                   error
	}{
		"initialize":           {true, true, nil},
		"end of Send cancels":  {false, false, nil},
		"request was not sent": {true, false, fmt.Errorf("%w: queue is full", call.ErrNotSent)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t)
				sent := 0
				w.send = func(ctx context.Context, out *outbound.Outgoing) error {
					sent++
					if test.err != nil {
						<-ctx.Done()
					}
					return test.err
				}
				o := &outbound.Requests{Wire: w, NotifyCancelled: test.notify}
				for i, onProgress := range []func(outbound.Progress){nil, func(outbound.Progress) {}} {
					ctx, cancel := context.WithCancel(t.Context())
					got := do(ctx, o, &outbound.Request{Method: "a", Uncancellable: test.uncancellable,
						OnProgress: onProgress})
					synctest.Wait()
					cancel()
					must.CheckIs(t, (<-got).err, context.Canceled)
					must.CheckEqual(t, sent, i+1)
				}
			})
		})
	}
}

func TestRequestWithEndedContextIsNotSent(t *testing.T) {
	w := newWire(t)
	o := &outbound.Requests{Wire: w, NotifyCancelled: true}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("too late")
	cancel(why)
	req := &outbound.Request{Method: "a"}
	_, err := o.Do(ctx, req)
	must.CheckThat(t, errors.Is(err, why) && errors.Is(err, call.ErrNotSent) && !req.MayHaveRun, "got %v", err)
	w.none()
}

// A peer that does not read blocks neither the caller nor Close. For a slow network, the sending goes on without them.
func TestTheCallerDoesNotWaitForItsCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		closed := make(chan struct{})
		gaveUp := make(chan time.Time, 2)
		w.send = func(ctx context.Context, out *outbound.Outgoing) error {
			if out.Method == mcp.NotificationCancelled {
				select {
				case <-ctx.Done():
				case <-closed:
				}
				gaveUp <- time.Now()
			}
			return nil
		}
		o := &outbound.Requests{Wire: w, NotifyCancelled: true}
		start := time.Now()
		for n := range 2 {
			_, err := o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Second})
			must.CheckIs(t, err, context.DeadlineExceeded)
			took(t, start, time.Duration(n+1)*(time.Second+20*time.Millisecond))
		}
		must.CheckEqual(t, (<-gaveUp).Sub(start), 11*time.Second, "the sending has ended")
		start = time.Now()
		_, _ = o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Second})
		must.Do(t, outbound.Close(closing{w, closed}, o))
		took(t, start, 2*time.Second+20*time.Millisecond)
		must.CheckEqual(t, len(gaveUp), 2) // the goroutines have ended
	})
}

// closing is a wire whose Close closes a channel.
type closing struct {
	*wire
	closed chan struct{}
}

func (w closing) Close() error {
	close(w.closed)
	return nil
}

func TestPanicInOnProgressRemovesTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		w.send = func(ctx context.Context, out *outbound.Outgoing) error {
			o.Report(out.ID, outbound.Progress{Done: 1})
			<-ctx.Done()
			return ctx.Err()
		}
		defer func() {
			if recover() == nil || o.Pending() != 0 {
				t.Errorf("%d requests are pending", o.Pending())
			}
		}()
		o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Minute,
			OnProgress: func(outbound.Progress) { panic("test") }})
	})
}

// A pause stops the time-out, but not the maximum time-out.
func TestPauseStopsTheTimeoutButNotTheMaximum(t *testing.T) {
	for _, test := range []struct {
		maximum, pause, want time.Duration
	}{
		{0, 10 * time.Minute, 10*time.Minute + time.Second},
		{time.Hour, 10 * time.Minute, 10*time.Minute + time.Second},
		{5 * time.Minute, 10 * time.Minute, 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(t)
			o := &outbound.Requests{Wire: w}
			start := time.Now()
			var took time.Duration
			got := make(chan error, 1)
			go func() {
				_, err := o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Second,
					MaxTimeout: test.maximum})
				took = time.Since(start)
				got <- err
			}()
			<-w.sent
			first, second := o.PauseTimeouts(), o.PauseTimeouts() // two pauses at the same time
			time.Sleep(test.pause / 2)
			first.Resume()
			time.Sleep(test.pause / 2)
			second.Resume()
			must.CheckIs(t, <-got, context.DeadlineExceeded)
			must.CheckEqual(t, took, test.want)
		})
	}
}

// A pause also affects requests that begin during it, until it is frozen.
func TestPauseAffectsLaterRequestsUntilItIsFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		start := time.Now()
		begin := func() <-chan time.Duration {
			took := make(chan time.Duration, 1)
			go func() {
				must.CheckIs(t, must.Err(o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Second,
					MaxTimeout: time.Hour})), context.DeadlineExceeded)
				took <- time.Since(start)
			}()
			<-w.sent
			return took
		}
		pause := o.PauseTimeouts()
		during := begin()
		time.Sleep(time.Minute)
		idle := pause.Freeze()
		after := begin()
		must.CheckEqual(t, <-after, time.Minute+time.Second)
		time.Sleep(time.Minute)
		select {
		case <-idle:
			t.Error("idle is closed while a paused request is in flight")
		default:
		}
		resumed := time.Since(start)
		pause.Resume()
		pause.Resume()
		must.CheckEqual(t, <-during, resumed+time.Second)
	})
}

func TestPauseIsIdleWhenItsRequestsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		none := o.PauseTimeouts()
		<-none.Freeze()
		none.Resume()
		ctx, cancel := context.WithCancel(t.Context())
		go o.Do(ctx, &outbound.Request{Method: "a", Timeout: time.Second})
		<-w.sent
		pause := o.PauseTimeouts()
		defer pause.Resume()
		idle := pause.Freeze()
		time.Sleep(time.Minute)
		cancel()
		<-idle
	})
}

// A pause also affects a request whose time-out starts during it, because the peer has started.
func TestTimeoutThatStartsDuringAPauseIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		started := make(chan struct{})
		o := &outbound.Requests{Wire: w, Started: started, StartBy: time.Now().Add(time.Minute)}
		start := time.Now()
		took := make(chan time.Duration, 1)
		go func() {
			o.Do(t.Context(), &outbound.Request{Method: "a", Timeout: time.Second})
			took <- time.Since(start)
		}()
		<-w.sent
		pause := o.PauseTimeouts()
		close(started)
		time.Sleep(10 * time.Minute)
		pause.Resume()
		must.CheckEqual(t, <-took, 10*time.Minute+time.Second)
	})
}

// Each request has its own time-out, although all share one timer.
func TestConcurrentRequestsEndAtTheirOwnTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		start := time.Now()
		within := func(after time.Duration) <-chan error {
			ended := make(chan error, 1)
			got := do(t.Context(), o, &outbound.Request{Method: "tools/call", Timeout: after})
			go func() {
				r := <-got
				var timeout *call.TimeoutError
				if !errors.As(r.err, &timeout) || timeout.After != after {
					r.err = fmt.Errorf("got %w, want the time-out of %v", r.err, after)
				} else if r.err = nil; time.Since(start) != after {
					r.err = fmt.Errorf("the time-out of %v came after %v", after, time.Since(start))
				}
				ended <- r.err
			}()
			return ended
		}
		answered := do(t.Context(), o, &outbound.Request{Method: "tools/call", Timeout: time.Second})
		o.Receive(result(t, (<-w.sent).ID, "early"))
		must.Do(t, (<-answered).err)
		var all []<-chan error
		for _, seconds := range []int{50, 20, 30, 10, 10, 40} {
			all = append(all, within(time.Duration(seconds)*time.Second))
			synctest.Wait()
		}
		for _, ended := range all {
			must.Check(t, <-ended)
		}
		// The timer works for later requests, too.
		start = time.Now()
		must.Check(t, <-within(5*time.Second))
	})
}
