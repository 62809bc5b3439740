package httpserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Rule T20: in the modern era, a disconnect cancels the request.
func TestDisconnectCancelsModernRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		w.fail = io.ErrClosedPipe
		ctx, cancel := context.WithCancelCause(t.Context())
		e := &eventStream{w: w, ctx: t.Context(), broken: cancelFunc(cancel)}
		if err := e.Write(ctx, []byte("a")); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, io.ErrClosedPipe) {
			t.Errorf("cause %v", cause)
		}
		if err := e.Write(t.Context(), []byte("b")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v", err)
		}
		e.end()
	})
}

// Rule T21: in a session, a disconnect does not cancel the request. Notifications are dropped
// without an error.
func TestDisconnectDoesNotCancelSessionRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReader()
		w.fail = io.ErrClosedPipe
		e := &eventStream{w: w, ctx: t.Context()}
		for range 100 {
			if err := e.Write(t.Context(), []byte("a")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := e.Broken(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("broken: %v", err)
		}
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
					if err := e.Write(t.Context(), []byte("early")); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // the first event is being written
				}
				begun := time.Now()
				leave()
				synctest.Wait()
				if !lenient && handling.Err() == nil {
					t.Error("the handler was not cancelled")
				}
				err := e.Write(t.Context(), []byte("late"))
				if lenient && err != nil || !lenient && !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
				e.end()
				if time.Since(begun) != 0 {
					t.Errorf("it took %v", time.Since(begun))
				}
				if got := w.text(); got != "" {
					t.Errorf("%d bytes were written", len(got))
				}
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

// outcome returns how onOtherStack ends: the result, the value of the panic, or neither after
// runtime.Goexit.
func outcome(f func() bool) (result, returned bool, panicked any) {
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
		if result, returned, panicked := outcome(func() bool { return want }); !returned || result != want {
			t.Errorf("returned %v, result %v, panic %v; want the result %v", returned, result, panicked, want)
		}
	}
	_, _, panicked := outcome(panicHere)
	if err, _ := panicked.(error); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "broken\n") || !strings.Contains(err.Error(), "httpserver.panicHere") {
		t.Errorf("panic %v; want the value and the stack of the function", panicked)
	}
	if _, _, panicked := outcome(func() bool { panic(http.ErrAbortHandler) }); panicked != http.ErrAbortHandler {
		t.Errorf("panic %v; want http.ErrAbortHandler", panicked)
	}
	if _, returned, panicked := outcome(func() bool { runtime.Goexit(); return true }); returned || panicked != nil {
		t.Errorf("returned %v, panic %v; want runtime.Goexit", returned, panicked)
	}
}
