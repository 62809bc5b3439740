package httpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule T20: in the modern era, a disconnect cancels the request.
func TestDisconnectCancelsModernRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		w.fail = io.ErrClosedPipe
		ctx, cancel := context.WithCancelCause(t.Context())
		e := &eventStream{w: w, ctx: t.Context(), broken: cancelFunc(cancel)}
		must.Do(t, e.Write(ctx, []byte("a")))
		<-ctx.Done()
		must.CheckIs(t, context.Cause(ctx), io.ErrClosedPipe)
		must.CheckIs(t, e.Write(t.Context(), []byte("b")), io.ErrClosedPipe)
		e.end()
	})
}

// Rule T21: in a session, a disconnect does not cancel the request. Notifications are dropped without an error.
func TestDisconnectDoesNotCancelSessionRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		w.fail = io.ErrClosedPipe
		e := &eventStream{w: w, ctx: t.Context()}
		for range 100 {
			must.Do(t, e.Write(t.Context(), []byte("a")))
			synctest.Wait()
		}
		must.CheckIs(t, e.Broken(), io.ErrClosedPipe)
		e.end()
	})
}

// Rule T20: after a disconnect nothing is written, queued events included.
func TestNothingIsWrittenAfterDisconnect(t *testing.T) {
	for name, lenient := range map[string]bool{"modern": false, "session": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := slowReader()
				here, leave := context.WithCancel(t.Context())
				handling, cancel := context.WithCancelCause(t.Context())
				e := &eventStream{w: w, ctx: here, broken: cancelFunc(cancel)}
				if lenient {
					e.broken = nil
				}
				for range 3 {
					must.Do(t, e.Write(t.Context(), []byte("early")))
					synctest.Wait() // the first event is being written
				}
				begun := time.Now()
				leave()
				synctest.Wait()
				must.CheckThat(t, lenient || handling.Err() != nil, "the handler was not cancelled")
				err := e.Write(t.Context(), []byte("late"))
				if lenient && err != nil || !lenient && !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
				e.end()
				must.CheckEqual(t, time.Since(begun), 0)
				got := w.text()
				must.CheckEqual(t, got, "", len(got), "bytes were written")
			})
		})
	}
}

// Rule T20: after a disconnect no stream begins.
func TestNoStreamBeginsAfterDisconnect(t *testing.T) {
	w := newReader()
	here, leave := context.WithCancel(t.Context())
	leave()
	handling, cancel := context.WithCancelCause(t.Context())
	e := &eventStream{w: w, ctx: here, broken: cancelFunc(cancel)}
	if err := e.Write(t.Context(), []byte("a")); !errors.Is(err, context.Canceled) || handling.Err() == nil {
		t.Errorf("%v; the handler is cancelled: %v", err, handling.Err())
	}
	e.end()
	if w.text() != "" || w.begun() != 0 {
		t.Errorf("%d %q", w.begun(), w.text())
	}
}

// endOf returns how onOtherStack ends: the result, the value of the panic, or neither after runtime.Goexit.
func endOf(f func() bool) (result, returned bool, panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		result = onOtherStack(f)
		returned = true
	}()
	<-done
	return result, returned, panicked
}

var errBroken = errors.New("broken")

func panicHere() bool { panic(errBroken) }

func TestOnOtherStackEndsAsItsFunction(t *testing.T) {
	for _, want := range []bool{true, false} {
		if result, returned, panicked := endOf(func() bool { return want }); !returned || result != want {
			t.Errorf("returned %v, result %v, panic %v; want the result %v", returned, result, panicked, want)
		}
	}
	_, _, panicked := endOf(panicHere)
	if err, _ := panicked.(error); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "broken\n") ||
		!strings.Contains(err.Error(), "httpserver.panicHere") {
		t.Errorf("panic %v; want the value and the stack of the function", panicked)
	}
	if _, _, panicked := endOf(func() bool { panic(http.ErrAbortHandler) }); panicked != http.ErrAbortHandler {
		t.Errorf("panic %v; want http.ErrAbortHandler", panicked)
	}
	if _, returned, panicked := endOf(func() bool { runtime.Goexit(); return true }); returned || panicked != nil {
		t.Errorf("returned %v, panic %v; want runtime.Goexit", returned, panicked)
	}
}

// A pair ends when the newest token of its requests expires, or an hour after its newest request, because a token that
// lives longer may have been revoked.
func TestStreamsEndWhenTheNewestTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(life time.Duration) *http.Request {
			info := &auth.Info{}
			if life > 0 {
				info.Expiry = time.Now().Add(life)
			}
			return (&http.Request{}).WithContext(auth.NewContext(t.Context(), info))
		}
		for _, tc := range []struct {
			tokens []time.Duration
			want   time.Duration
		}{
			{[]time.Duration{time.Minute}, time.Minute},
			{[]time.Duration{time.Minute, 30 * time.Minute, time.Second}, 30 * time.Minute},
			{[]time.Duration{2 * time.Hour}, time.Hour},
			{[]time.Duration{0}, time.Hour},
			{[]time.Duration{time.Minute, 0}, time.Hour},
		} {
			begin := time.Now()
			e := expiryOf(with(tc.tokens[0]))
			for _, life := range tc.tokens[1:] {
				e.extend(with(life))
			}
			<-e.expired()
			must.CheckEqual(t, time.Since(begin), tc.want, tc.tokens)
			e.stop()
		}
		open := expiryOf(&http.Request{})
		open.extend(&http.Request{})
		must.CheckThat(t, open.expired() == nil, "a stream expires without authorization")
		open.stop()
	})
}

func TestMetadataRequestsAreRecognizedByTheirPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/.well-known/oauth-protected-resource": true, "/.well-known/oauth-protected-resource/": true,
		"/.well-known/oauth-protected-resource/mcp?x=y": true,
		"/.well-known/oauth-protected-resources":        false, "/mcp": false,
		"/mcp/.well-known/oauth-protected-resource": false,
	} {
		must.CheckEqual(t, isMetadata(httptest.NewRequest(http.MethodGet, path, nil)), want, path)
	}
}

// track registers a request whose body has been read. Its stream may be nil.
func track(t *tracker, stream *eventStream, every time.Duration) *trackedRequest {
	f := new(trackedRequest)
	t.begin(f, new(eventStream), every)
	_ = t.enter(f)
	if stream != nil {
		t.watch(f, stream, true)
	}
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
				must.CheckEqual(t, len(all[i].w.text())/len(":\n"), want, when, i)
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
		must.CheckThat(t, !requests.armed, "the timer runs without a stream")
		requests.mu.Unlock()

		w := newReader()
		track(&requests, &eventStream{w: w, ctx: t.Context()}, every)
		time.Sleep(every)
		synctest.Wait()
		must.CheckEqual(t, w.text(), ":\n")
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
	must.CheckEqual(t, tr.enter(reading), errShutdown)
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
	must.CheckThat(t, tr.requests == nil, "a request is registered after it has left")
}

func TestTrackerLimitsRequestsInFlight(t *testing.T) {
	tr := tracker{n: maxRequests - 1}
	last := track(&tr, nil, time.Minute)
	must.That(t, last.entered, "rejected below the limit")
	more := track(&tr, nil, time.Minute)
	must.CheckThat(t, !more.entered, "accepted above the limit")
	tr.leave(more)
	tr.leave(last)
	must.CheckThat(t, track(&tr, nil, time.Minute).entered, "rejected after a request has ended")
}

// A request that arrives after cancelAll is cancelled too.
func TestTrackerCancelsLateRequests(t *testing.T) {
	var tr tracker
	begin := func() (context.Context, *trackedRequest) {
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		f := track(&tr, nil, time.Second)
		tr.watch(f, &eventStream{broken: cancelFunc(cancel)}, false)
		return ctx, f
	}
	early, _ := begin()
	ended, f := begin()
	track(&tr, nil, time.Second)
	tr.leave(f)
	tr.cancelAll()
	late, _ := begin()
	if !errors.Is(context.Cause(early), errShutdown) || !errors.Is(context.Cause(late), errShutdown) ||
		ended.Err() != nil {
		t.Errorf("%v, %v, %v", context.Cause(early), context.Cause(late), ended.Err())
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAddressOfIPv6ClientIsItsNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1234":             "192.0.2.1",
		"[::ffff:192.0.2.1]:1234":    "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:443": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:443": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":           "fe80::/64",
		"@":                          "@",
		"":                           "",
	} {
		must.CheckEqual(t, addressOf(&http.Request{RemoteAddr: remote}), want, remote)
	}
}
