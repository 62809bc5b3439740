package httpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

const (
	writeTimeout = 30 * time.Second // for one write to an event stream
	maxQueued    = 1 << 20          // bytes that wait for a slow reader before whoever writes does
	maxSpare     = 64 << 10         // bytes of a buffer that an open stream keeps
)

var eventStreamType = []string{"text/event-stream"}

// eventStream is the response to one request, made an event stream when the first
// message is written to it. Whoever writes only queues: a goroutine that lives as
// long as there is something to write takes what has gathered and sends it with
// one flush. Safe for concurrent use until end.
type eventStream struct {
	w   http.ResponseWriter
	ctx context.Context // when it ends, the reader is gone
	// broken is cancelled when writing fails. If it is nil, that the reader is gone is
	// nobody's fault and changes nothing: what is written from then on is dropped.
	broken canceler
	answer *answerStream // to a session's request, that this is the connection of; else nil

	mu      sync.Mutex
	started bool
	ended   bool // the ResponseWriter is not ours any more
	queue   []byte
	spare   []byte        // the buffer that the queue swaps with
	idle    chan struct{} // closed when the sending goroutine has ended; nil when there is none
	drained chan struct{} // closed when the queue has been taken; nil when nobody waits
	err     error
	unwatch func() bool // stops watching ctx; nil until started
}

var _ rpc.Stream = (*eventStream)(nil)

// Write queues one message as an event. It waits while too much is queued.
func (e *eventStream) Write(ctx context.Context, msg []byte) error {
	err := e.write(ctx, func(dst []byte) []byte { return appendEvent(dst, "", msg) })
	if err != nil && e.broken == nil && e.Broken() != nil {
		return nil
	}
	return err
}

// Broken returns why nothing reaches the reader any more, or nil.
func (e *eventStream) Broken() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == call.ErrCallDone {
		return nil
	}
	return e.err
}

// comment writes a line that carries no event, which shows whoever is in between
// that the stream is alive.
func (e *eventStream) comment() error {
	return e.write(e.ctx, appendComment)
}

func appendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }

func (e *eventStream) write(ctx context.Context, encode func(dst []byte) []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.waitCapacity(ctx); err != nil {
		return err
	}
	e.push(encode)
	return nil
}

// await waits while too much is queued, or until nothing can be sent any more.
func (e *eventStream) await(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waitCapacity(ctx)
}

// enqueue queues however much is queued already, unless nothing can be sent any more.
func (e *eventStream) enqueue(encode func(dst []byte) []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.check() == nil {
		e.push(encode)
	}
}

// wait waits while too much is queued. It is called with mu held, which it lets go of
// meanwhile. The error is the context's, or why nothing can be sent any more.
func (e *eventStream) waitCapacity(ctx context.Context) error {
	for e.err == nil && len(e.queue) > maxQueued {
		if e.drained == nil {
			e.drained = make(chan struct{})
		}
		drained := e.drained
		e.mu.Unlock()
		select {
		case <-drained:
			e.mu.Lock()
		case <-ctx.Done():
			e.mu.Lock()
			return context.Cause(ctx)
		}
	}
	return e.check()
}

// check returns why nothing can be sent any more, or nil. It is called with mu held.
func (e *eventStream) check() error {
	if e.err == nil && e.ctx.Err() != nil {
		e.fail(context.Cause(e.ctx))
	}
	return e.err
}

// push queues. It is called with mu held and err nil.
func (e *eventStream) push(encode func(dst []byte) []byte) {
	if !e.started {
		e.start()
		if e.answer != nil {
			e.queue = e.answer.opening(e.queue)
		}
	}
	e.queue = encode(e.queue)
	if e.idle == nil {
		e.idle = make(chan struct{})
		go e.send(e.idle)
	}
}

// start sends the header of an event stream, if that has not happened. It is
// called with mu held.
func (e *eventStream) start() {
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
	e.unwatch = context.AfterFunc(e.ctx, e.abandon)
}

// open makes the response an event stream, without any event yet.
func (e *eventStream) open() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.start()
	}
}

// keepAlive writes a comment if nothing else is under way, so that nobody in between
// takes a call that takes long for a connection that is dead. The first one makes the
// response an event stream.
func (e *eventStream) keepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil && e.ctx.Err() == nil && len(e.queue) == 0 {
		e.push(appendComment)
	}
}

// send writes what is queued until nothing is.
func (e *eventStream) send(idle chan struct{}) {
	defer close(idle)
	rc := http.NewResponseController(e.w)
	for {
		e.mu.Lock()
		chunk := e.queue
		if len(chunk) == 0 || e.err != nil {
			e.idle = nil
			e.mu.Unlock()
			return
		}
		e.queue, e.spare = e.spare[:0], nil
		if e.drained != nil {
			close(e.drained)
			e.drained = nil
		}
		_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter has one
		e.mu.Unlock()

		err := flush(e.w, rc, chunk)

		e.mu.Lock()
		if cap(chunk) <= maxSpare {
			e.spare = chunk[:0]
		}
		if err != nil && e.err == nil {
			e.fail(err)
		}
		e.mu.Unlock()
	}
}

// flush writes a chunk. A ResponseWriter that cannot flush sends it later; one that
// panics is somebody else's, and must not take the process with it.
func flush(w http.ResponseWriter, rc *http.ResponseController, chunk []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the ResponseWriter panicked: %v", v)
		}
	}()
	if _, err := w.Write(chunk); err != nil {
		return err
	}
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// fail is called with mu held.
func (e *eventStream) fail(err error) {
	e.err, e.queue = err, nil
	if e.drained != nil {
		close(e.drained)
		e.drained = nil
	}
	if e.broken != nil {
		e.broken.Cancel(err)
	}
}

// abandon is called when the reader is gone: nothing more must be sent to it.
func (e *eventStream) abandon() { e.interrupt(context.Cause(e.ctx)) }

// interrupt drops what is queued and ends what is being written.
func (e *eventStream) interrupt(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	if e.err == nil {
		e.fail(err)
	}
	_ = http.NewResponseController(e.w).SetWriteDeadline(time.Unix(1, 0))
}

// claim keeps the stream from being started, and reports whether it has been
// already. If it has not, the ResponseWriter is the caller's.
func (e *eventStream) claim() (started bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		e.err = call.ErrCallDone
	}
	return e.started
}

// end waits until everything is sent. Nothing is written afterwards: the
// ResponseWriter dies with the handler. It may be called more than once.
func (e *eventStream) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waitSent()
	if e.err == nil {
		e.err = call.ErrCallDone
	}
	if e.ended || !e.started {
		e.ended = true
		return
	}
	e.ended = true
	e.unwatch()
	if e.ctx.Err() == nil { // the connection may serve another request, at any time
		_ = http.NewResponseController(e.w).SetWriteDeadline(deadlineOf(e.ctx))
	}
}

// settle waits until nothing is being sent. It is called with mu held, which it lets
// go of meanwhile.
func (e *eventStream) waitSent() {
	for e.idle != nil {
		idle := e.idle
		e.mu.Unlock()
		<-idle
		e.mu.Lock()
	}
}

// deadlineOf is what the program itself wants as the deadline of a response: none,
// or what it has set for its server.
func deadlineOf(ctx context.Context) time.Time {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.WriteTimeout > 0 {
		return time.Now().Add(s.WriteTimeout)
	}
	return time.Time{}
}

// appendEvent appends one server-sent event. Message is one line, as everything
// that we encode is; what has line breaks all the same is sent as several data
// lines, which the reader joins again.
func appendEvent(dst []byte, name string, message []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		end := bytes.IndexAny(message, "\r\n")
		if end < 0 {
			return append(append(append(dst, "data: "...), message...), "\n\n"...)
		}
		dst = append(append(append(dst, "data: "...), message[:end]...), '\n')
		if message[end] == '\r' && end+1 < len(message) && message[end+1] == '\n' {
			end++
		}
		message = message[end+1:]
	}
}
