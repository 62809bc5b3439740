package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/rpc"
)

const maxQueued = 1 << 20 // queued bytes above which Write waits for the reader

// Values of headers that all event streams share.
var (
	noCache     = []string{"no-cache, no-transform"}
	noBuffering = []string{"no"}
)

var errStreamClosed = errors.New("event stream closed")

// eventStream is the response to one request. It becomes an event stream with the first message that is written.
// Writing adds to a queue; a goroutine that runs while the queue has content sends it with one write and one flush. An
// eventStream is safe for concurrent use until end.
type eventStream struct {
	w   http.ResponseWriter
	ctx context.Context // ends when the client disconnects
	// broken is cancelled when a write fails. If broken is nil, Write drops messages after a failure and returns no
	// error.
	broken rpc.Canceler
	answer *answerStream // the response to a request of a session that uses this stream as its connection; may be nil

	mu      sync.Mutex
	started bool
	ended   bool          // w must no longer be used
	exited  bool          // the handler called runtime.Goexit: net/http does not end the response; not guarded by mu
	queue   *[]byte       // from [rpc.NewBuffer]; nil if it is empty
	idle    chan struct{} // closed when the goroutine that runs send ends; nil if none runs
	drained chan struct{} // closed when send takes the queue; nil if no writer waits
	err     error
	unwatch func() bool // stops watching ctx; nil until started
}

var _ rpc.Stream = (*eventStream)(nil)

// Write queues one message as an event. It waits while more than maxQueued bytes are queued. It does not retain msg.
// The error is the cause of ctx or the reason why nothing more can be sent.
func (e *eventStream) Write(ctx context.Context, msg []byte) error {
	err := e.write(ctx, func(dst []byte) []byte { return httpcodec.AppendMessage(dst, msg) })
	if err != nil && e.broken == nil && e.Broken() != nil {
		return nil
	}
	return err
}

// Broken returns the error that broke the connection to the client, or nil.
func (e *eventStream) Broken() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == call.ErrCallDone {
		return nil
	}
	return e.err
}

// isOpen reports whether the client is connected.
func (e *eventStream) isOpen() bool { return e.ctx.Err() == nil && e.Broken() == nil }

// comment queues a comment, which shows the client and proxies that the stream is alive.
func (e *eventStream) comment() error {
	return e.write(e.ctx, httpcodec.AppendComment)
}

// write queues the event that encode appends. See Write.
func (e *eventStream) write(ctx context.Context, encode func(dst []byte) []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.waitCapacity(ctx); err != nil {
		return err
	}
	e.push(encode)
	return nil
}

// await waits until a write would not wait. The error is as in Write.
func (e *eventStream) await(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waitCapacity(ctx)
}

// enqueue queues an event without waiting. It does nothing if the stream is broken.
func (e *eventStream) enqueue(encode func(dst []byte) []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.check() == nil {
		e.push(encode)
	}
}

// waitCapacity waits while more than maxQueued bytes are queued. The caller holds mu,
// which is unlocked while waiting. The error is as in Write.
func (e *eventStream) waitCapacity(ctx context.Context) error {
	for e.err == nil && e.queued() > maxQueued {
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

// check returns the reason why nothing more can be sent, or nil. The caller holds mu.
func (e *eventStream) check() error {
	if e.err == nil && e.ctx.Err() != nil {
		e.fail(context.Cause(e.ctx))
	}
	return e.err
}

// push queues an event and starts the stream and the sending goroutine if necessary. The
// caller holds mu, and err is nil.
func (e *eventStream) push(encode func(dst []byte) []byte) {
	if e.queue == nil {
		e.queue = rpc.NewBuffer()
	}
	if !e.started {
		e.start()
		if e.answer != nil {
			*e.queue = e.answer.opening(*e.queue)
		}
	}
	*e.queue = encode(*e.queue)
	if e.idle == nil {
		e.idle = make(chan struct{})
		go e.send(e.idle)
	}
}

// queued returns the number of bytes in the queue. The caller holds mu.
func (e *eventStream) queued() int {
	if e.queue == nil {
		return 0
	}
	return len(*e.queue)
}

// start sends the header of an event stream unless it was sent before. The caller holds mu.
func (e *eventStream) start() {
	if e.started {
		return
	}
	e.started = true
	h := e.header()
	delete(h, "Content-Length")
	e.w.WriteHeader(http.StatusOK)
	e.unwatch = context.AfterFunc(e.ctx, e.abandon)
}

// header sets the header of an event stream.
func (e *eventStream) header() http.Header {
	h := e.w.Header()
	h["Content-Type"] = httpcodec.EventStreamType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	return h
}

// sendOnly sends a whole event stream with these events, which needs no goroutine and no
// flush. The caller has claimed e.
func (e *eventStream) sendOnly(events []byte) {
	e.header()
	if len(events) > knownLength {
		setLength(e.w, events)
	}
	setWriteDeadline(e.w, len(events))
	e.w.WriteHeader(http.StatusOK)
	_, _ = e.w.Write(events)
	if e.exited {
		_ = http.NewResponseController(e.w).Flush()
	}
}

// open starts the event stream without an event.
func (e *eventStream) open() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.start()
	}
}

// keepAlive queues a comment if the queue is empty, so that proxies do not close the
// connection of a slow call. It starts the event stream.
func (e *eventStream) keepAlive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answer != nil && e.idle == nil { // also if the client has disconnected: it may resume the stream
		if s := e.answer.needsEntry(e.err == nil); s != nil {
			e.idle = make(chan struct{})
			go e.logAndSend(s, e.idle)
			return
		}
	}
	e.pushComment()
}

// pushComment queues a comment if the queue is empty. The caller holds mu.
func (e *eventStream) pushComment() {
	if e.err == nil && e.ctx.Err() == nil && e.queued() == 0 {
		e.push(httpcodec.AppendComment)
	}
}

// logAndSend makes other replicas know the stream, and then sends a comment and the queue.
func (e *eventStream) logAndSend(s *sessionStream, idle chan struct{}) {
	s.keepLogged()
	e.mu.Lock()
	e.pushComment()
	e.mu.Unlock()
	e.send(idle)
}

// send writes the queue until it is empty or a write fails.
func (e *eventStream) send(idle chan struct{}) {
	defer close(idle)
	rc := http.NewResponseController(e.w)
	for {
		e.mu.Lock()
		chunk := e.queue
		if e.queued() == 0 || e.err != nil {
			e.idle = nil
			e.mu.Unlock()
			return
		}
		e.queue = nil
		if e.drained != nil {
			close(e.drained)
			e.drained = nil
		}
		setWriteDeadline(e.w, len(*chunk))
		e.mu.Unlock()

		err := flush(e.w, rc, *chunk)
		if err == nil {
			rpc.FreeBuffer(chunk)
			continue
		}
		e.mu.Lock()
		if e.err == nil {
			e.fail(err)
		}
		e.mu.Unlock()
	}
}

// flush writes and flushes a chunk. A ResponseWriter without Flush sends the chunk later.
// A panic of the ResponseWriter becomes an error, since it would end the process.
func flush(w http.ResponseWriter, rc *http.ResponseController, chunk []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in ResponseWriter: %v", v)
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

// fail breaks the stream with err. The caller holds mu.
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

// abandon is called when the client disconnects.
func (e *eventStream) abandon() { e.interrupt(context.Cause(e.ctx)) }

// interrupt breaks the stream with err: it drops the queue and aborts the current write.
func (e *eventStream) interrupt(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	if e.err == nil {
		e.fail(err)
	}
	_ = expireWrite(e.w)
}

// claim prevents the stream from starting, unless it has already started, which it
// reports. If it reports false, only the caller uses the ResponseWriter from then on.
func (e *eventStream) claim() (started bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		e.err = call.ErrCallDone
	}
	return e.started
}

// end waits until the queue is sent. Afterwards the stream does not use the
// ResponseWriter, so the HTTP handler may return. end may be called more than once.
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
	if e.ctx.Err() == nil { // for the end of the body, which net/http writes
		setWriteDeadline(e.w, 0)
	}
}

// waitSent waits until no goroutine sends. The caller holds mu, which is unlocked while waiting.
func (e *eventStream) waitSent() {
	for e.idle != nil {
		idle := e.idle
		e.mu.Unlock()
		<-idle
		e.mu.Lock()
	}
}
