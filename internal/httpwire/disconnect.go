package httpwire

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// hangUp ends the response while its handler runs on, when everything has been sent,
// and reports whether that could be done. Net/http itself ends a response when the
// handler returns. It may be called more than once, and at the same time as end.
func (e *eventStream) disconnect() bool {
	e.mu.Lock()
	e.waitSent()
	if e.ended || !e.started { // without a beginning there is nothing to end: the reader has gone
		e.mu.Unlock()
		return true
	}
	err, sending := e.err, make(chan struct{})
	e.idle = sending // end waits for it
	if err == nil {
		e.err = errStreamClosed
	}
	e.mu.Unlock()

	done := closeResponse(e.w, e.answer.r)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = nil
	close(sending)
	if !done {
		e.err = err
		return false
	}
	e.ended = true
	e.unwatch()
	return true
}

// disconnect ends a response, of which everything has been flushed, from outside of
// its handler. Over HTTP/1 that takes the connection away from net/http, and over
// HTTP/2 resets the stream, of which there are many on a connection.
func closeResponse(w http.ResponseWriter, r *http.Request) bool {
	rc := http.NewResponseController(w)
	if r.ProtoMajor > 1 {
		return rc.SetWriteDeadline(time.Unix(1, 0)) == nil
	}
	conn, _, err := rc.Hijack()
	if errors.Is(err, http.ErrHijacked) {
		return true
	}
	if err != nil {
		return false
	}
	if r.ProtoAtLeast(1, 1) { // the chunk that ends a body whose length was not known
		_ = conn.SetWriteDeadline(time.Now().Add(disconnectTimeout))
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	}
	_ = conn.Close()
	return true
}

const disconnectTimeout = time.Second
