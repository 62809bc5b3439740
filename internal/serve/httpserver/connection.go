package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"
)

// disconnect sends what is queued and ends the response before its handler returns, if the connection can be closed.
// It may be called more than once and concurrently with end.
func (e *eventStream) disconnect() {
	e.mu.Lock()
	e.waitSent()
	if e.ended || !e.started { // not started: the client has disconnected
		e.mu.Unlock()
		return
	}
	err, sending := e.err, make(chan struct{})
	e.idle = sending // end waits for it
	if err == nil {
		e.err = errStreamClosed
	}
	e.mu.Unlock()

	done := closeResponse(e.w, e.answer.x.context.request)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = nil
	close(sending)
	if !done {
		e.err = err
		return
	}
	e.ended = true
	e.unwatch()
}

// closeResponse ends a flushed response while its handler runs. With HTTP/1 it hijacks
// and closes the connection; with HTTP/2 it resets the stream.
func closeResponse(w http.ResponseWriter, r *http.Request) bool {
	rc := http.NewResponseController(w)
	if r.ProtoMajor > 1 {
		return expireWrite(w) == nil
	}
	conn, _, err := rc.Hijack()
	if errors.Is(err, http.ErrHijacked) {
		return true
	}
	if err != nil {
		return false
	}
	if r.ProtoAtLeast(1, 1) { // write the last chunk of the chunked body
		_ = conn.SetWriteDeadline(time.Now().Add(disconnectTimeout))
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
	_ = conn.Close()
	return true
}

// disconnectTimeout is the time-out for writing the end of a response.
const disconnectTimeout = time.Second

// onOtherStack runs f in another goroutine, waits for it and returns its result. The runtime
// halves a stack only while less than a quarter of it is in use, so that the goroutine of an open
// event stream would keep most of what its deepest call has needed.
//
// If f panics or calls runtime.Goexit, so does onOtherStack. The value of the panic is a
// *relayedPanic, unless it is [http.ErrAbortHandler].
func onOtherStack(f func() bool) bool {
	var (
		result, returned bool
		panicked         any
		done             = make(chan struct{})
	)
	go func() {
		defer close(done)
		defer func() {
			if panicked = recover(); panicked != nil && panicked != http.ErrAbortHandler {
				panicked = &relayedPanic{panicked, debug.Stack()}
			}
		}()
		result = f()
		returned = true
	}()
	<-done
	switch {
	case returned:
	case panicked != nil:
		panic(panicked)
	default:
		runtime.Goexit()
	}
	return result
}

// relayedPanic is the value of a panic of another goroutine.
type relayedPanic struct {
	value any
	stack []byte
}

func (p *relayedPanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *relayedPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
