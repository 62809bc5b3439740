package transport

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// defaultMaxPending is the default of StreamOptions.MaxPending.
	defaultMaxPending = 1 << 20

	// maxIdleBuffer is the maximum size of a buffer that an idle connection keeps.
	maxIdleBuffer = 64 << 10
)

// lineWriter writes messages in batches (group commit). Each write appends to a queue. If no flush is
// running, it starts a goroutine that writes the queue until it is empty. So a write never waits for I/O,
// concurrent messages are written in one batch, and an idle connection has no goroutine.
//
// The flush runs in a goroutine and not in the first caller, because it then starts after the other
// goroutines that are ready to write. With 64 calls in flight this halves the time per message; a single
// call takes a microsecond longer. A caller that knows that it will write more calls write with buffer set,
// and flushBuffered at the end.
//
// Invariant: flushing is true while pending is not empty and err is nil, unless write has buffered all of pending.
type lineWriter struct {
	dst        io.Writer
	maxPending int
	start      func() // the method value flush, which would allocate each time

	mu       sync.Mutex
	pending  []byte // the queue
	spare    []byte // an empty buffer for the next queue
	flushing bool
	used     bool // there was a message
	closed   bool
	err      *WriteError // the first error

	space   chan struct{} // has a token when the queue may have space
	stopped chan struct{} // closed when closed or err is set: wakes writers that wait for space
	idle    chan struct{} // closed when stopped is closed and no flush is running
}

func newLineWriter(dst io.Writer, maxPending int) *lineWriter {
	if maxPending <= 0 {
		maxPending = defaultMaxPending
	}
	w := &lineWriter{
		dst:        dst,
		maxPending: maxPending,
		space:      make(chan struct{}, 1),
		stopped:    make(chan struct{}),
		idle:       make(chan struct{}),
	}
	w.start = w.flush
	return w
}

// directSize is the size in bytes from which write with buffer set writes a message itself.
const directSize = 64 << 10

// write queues msg. If buffer is set, it does not start a flush unless the queue is full, and it writes a
// large message itself if no flush is running, without a copy of it. Then it may append a byte to msg
// within the capacity.
func (w *lineWriter) write(ctx context.Context, msg []byte, buffer bool) error {
	if err := checkMessage(msg); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	for !w.isStopped() && len(w.pending) >= w.maxPending {
		w.mu.Unlock()
		select {
		case <-w.space:
		case <-w.stopped:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	if w.err != nil {
		return w.err
	}
	if buffer && len(msg) >= directSize && !w.flushing {
		return w.writeDirect(msg)
	}
	w.pending = append(append(slices.Grow(w.pending, len(msg)+1), msg...), '\n')
	if len(w.pending) < w.maxPending {
		notify(w.space) // another writer may be waiting
	}
	if !buffer || len(w.pending) >= w.maxPending {
		w.startFlush()
	}
	return nil
}

// writeDirect writes the queue and msg. The caller holds mu, which is unlocked meanwhile, and no flush is
// running.
func (w *lineWriter) writeDirect(msg []byte) error {
	w.flushing, w.used = true, true
	queued := w.pending
	w.pending = nil
	notify(w.space) // another writer may be waiting
	w.mu.Unlock()
	for _, batch := range [][]byte{queued, append(msg, '\n')} {
		if len(batch) == 0 {
			continue
		}
		if _, err := w.dst.Write(batch); err != nil {
			w.fail(err)
			break
		}
	}
	w.flush() // messages that were queued meanwhile
	w.mu.Lock()
	if w.err != nil {
		return w.err
	}
	return nil
}

// isWritten reports whether all messages, at least one, are written to dst.
func (w *lineWriter) isWritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used && !w.flushing && len(w.pending) == 0 && w.err == nil
}

// isUsed reports whether there was a message to write.
func (w *lineWriter) isUsed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// startFlush starts a flush unless one is running. The caller holds mu.
func (w *lineWriter) startFlush() {
	if !w.flushing {
		w.flushing, w.used = true, true
		go w.start()
	}
}

// flushBuffered writes the buffered messages, unless a flush is running, which writes them.
func (w *lineWriter) flushBuffered() {
	w.mu.Lock()
	if w.flushing || len(w.pending) == 0 || w.err != nil {
		w.mu.Unlock()
		return
	}
	w.flushing, w.used = true, true
	w.mu.Unlock()
	w.flush()
}

func (w *lineWriter) isStopped() bool { return w.closed || w.err != nil }

// flush writes the queue until it is empty or the stream fails.
func (w *lineWriter) flush() {
	for batch := w.next(nil); batch != nil; batch = w.next(batch) {
		if _, err := w.dst.Write(batch); err != nil {
			w.fail(err)
		}
	}
}

// next returns the next batch to write, or nil if the flush must end. written is the previous batch, whose
// buffer next reuses.
func (w *lineWriter) next(written []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 && w.err == nil {
		batch := w.pending
		if written == nil {
			written = w.spare
		}
		w.pending, w.spare = written[:0], nil
		notify(w.space)
		return batch
	}
	if cap(written) <= maxIdleBuffer {
		w.spare = written
	}
	if cap(w.pending) > maxIdleBuffer {
		w.pending = nil
	}
	w.flushing = false
	if w.isStopped() {
		closeOnce(w.idle)
	}
	return nil
}

// fail makes all later writes return err, unless there was an earlier error.
func (w *lineWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = &WriteError{Err: err}
		w.pending = nil
		w.stop()
	}
}

// close makes all later writes return ErrClosed. The queue is written before idle is closed.
func (w *lineWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if len(w.pending) > 0 { // buffered
		w.startFlush()
	}
	w.stop()
}

// stop wakes the writers that wait for space. The caller holds mu and has set closed or err.
func (w *lineWriter) stop() {
	closeOnce(w.stopped)
	if !w.flushing {
		closeOnce(w.idle)
	}
}

// awaitIdle waits until idle is closed, at most for d.
func (w *lineWriter) awaitIdle(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.idle:
	case <-timer.C:
	}
}

// closeOnce closes a channel unless it is already closed. The caller holds the mutex that protects it.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
