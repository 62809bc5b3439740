package httpwire

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
)

const (
	writeTimeout = 30 * time.Second // for one write to an event stream
	maxQueued    = 1 << 20          // bytes that wait for a slow reader before whoever writes does
)

var eventStreamType = []string{"text/event-stream"}

// eventStream is the response to one request, made an event stream when the first
// message is written to it. Whoever writes only queues: a goroutine that lives as
// long as there is something to write takes what has gathered and sends it with
// one flush. Safe for concurrent use until end.
type eventStream struct {
	w      http.ResponseWriter
	broken context.CancelCauseFunc // called when the reader is gone; may be nil

	mu      sync.Mutex
	started bool
	queue   []byte
	spare   []byte        // the buffer that the queue swaps with
	idle    chan struct{} // closed when the sending goroutine has ended; nil when there is none
	room    chan struct{} // closed when the queue has been taken; nil when nobody waits
	err     error
}

var _ call.Stream = (*eventStream)(nil)

// Write queues one message as an event. It waits while too much is queued.
func (e *eventStream) Write(ctx context.Context, msg []byte) error {
	return e.write(ctx, func(dst []byte) []byte { return appendEvent(dst, "", msg) })
}

func (e *eventStream) write(ctx context.Context, encode func(dst []byte) []byte) error {
	e.mu.Lock()
	for e.err == nil && len(e.queue) > maxQueued {
		if e.room == nil {
			e.room = make(chan struct{})
		}
		room := e.room
		e.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		e.mu.Lock()
	}
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.begin()
	e.queue = encode(e.queue)
	if e.idle == nil {
		e.idle = make(chan struct{})
		go e.send(e.idle)
	}
	return nil
}

// begin sends the header of an event stream, if that has not happened.
func (e *eventStream) begin() {
	if e.started {
		return
	}
	e.started = true
	h := e.w.Header()
	h["Content-Type"] = eventStreamType
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"}
	delete(h, "Content-Length")
	e.w.WriteHeader(http.StatusOK)
}

// send writes what is queued until nothing is.
func (e *eventStream) send(idle chan struct{}) {
	defer close(idle)
	for {
		e.mu.Lock()
		chunk := e.queue
		if len(chunk) == 0 || e.err != nil {
			e.idle = nil
			e.mu.Unlock()
			return
		}
		e.queue, e.spare = e.spare[:0], nil
		if e.room != nil {
			close(e.room)
			e.room = nil
		}
		e.mu.Unlock()

		err := e.flush(chunk)

		e.mu.Lock()
		e.spare = chunk[:0]
		if err != nil {
			e.fail(err)
		}
		e.mu.Unlock()
	}
}

func (e *eventStream) flush(chunk []byte) error {
	rc := http.NewResponseController(e.w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter has one
	if _, err := e.w.Write(chunk); err != nil {
		return err
	}
	return rc.Flush()
}

// fail is called with mu held.
func (e *eventStream) fail(err error) {
	e.err = err
	if e.room != nil {
		close(e.room)
		e.room = nil
	}
	if e.broken != nil {
		e.broken(err)
	}
}

// end waits until everything is sent. Nothing is written afterwards: the
// ResponseWriter dies with the handler.
func (e *eventStream) end() {
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	if idle != nil {
		<-idle
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		// The connection may serve another request, at any time.
		_ = http.NewResponseController(e.w).SetWriteDeadline(time.Time{})
	}
	if e.err == nil {
		e.err = call.ErrCallDone
	}
}

// upgraded reports whether the response has become an event stream.
func (e *eventStream) upgraded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started
}

// appendEvent appends one server-sent event. Message is one line, as everything
// that we encode is; what a handler put into it with line breaks is sent as
// several data lines, which the reader joins again.
func appendEvent(dst []byte, name string, message []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		line, rest, more := bytes.Cut(message, []byte{'\n'})
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if message = rest; !more {
			return append(dst, '\n')
		}
	}
}
