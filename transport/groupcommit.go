package transport

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// defaultMaxPending bounds what is queued for a stream, in bytes.
	defaultMaxPending = 1 << 20

	// keepBuffer is the largest queue buffer that a quiet connection holds on to.
	keepBuffer = 64 << 10
)

// lineWriter writes messages in batches. Each Write appends to a queue; the first to find nobody
// writing starts a goroutine that writes the queue, and what is appended meanwhile, and ends when the
// queue is empty. So no Write waits in I/O, what is ready at one time is one write of the stream, and
// an idle connection has no goroutine.
//
// That a goroutine writes, and not the first caller, is measured: it starts when those who are ready
// to write have written. With 64 calls in flight that halves the time a message takes; a lone one
// pays a microsecond.
//
// Invariant: if pending is not empty and the writer is not broken, somebody is flushing.
type lineWriter struct {
	dst        io.Writer
	maxPending int
	start      func() // flush, bound once: binding it allocates

	mu       sync.Mutex
	pending  []byte // accepted, and not being written
	spare    []byte // an empty buffer, to take the place of pending
	flushing bool
	closed   bool
	err      *WriteError // the first; it stays

	room chan struct{} // holds a token when there may be room in pending
	over chan struct{} // closed when closed or err is set: wakes all who wait for room
	idle chan struct{} // closed when nothing will be written any more
}

func newLineWriter(dst io.Writer, maxPending int) *lineWriter {
	if maxPending <= 0 {
		maxPending = defaultMaxPending
	}
	w := &lineWriter{
		dst:        dst,
		maxPending: maxPending,
		room:       make(chan struct{}, 1),
		over:       make(chan struct{}),
		idle:       make(chan struct{}),
	}
	w.start = w.flush
	return w
}

func (w *lineWriter) write(ctx context.Context, msg []byte) error {
	if err := checkMessage(msg); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	for !w.isOver() && len(w.pending) >= w.maxPending {
		w.mu.Unlock()
		select {
		case <-w.room:
		case <-w.over:
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
	w.pending = append(append(slices.Grow(w.pending, len(msg)+1), msg...), '\n')
	if len(w.pending) < w.maxPending {
		notify(w.room) // pass the token on
	}
	if !w.flushing {
		w.flushing = true
		go w.start()
	}
	return nil
}

func (w *lineWriter) isOver() bool { return w.closed || w.err != nil }

// flush writes the queue until it is empty or the stream fails.
func (w *lineWriter) flush() {
	for batch := w.next(nil); batch != nil; batch = w.next(batch) {
		if _, err := w.dst.Write(batch); err != nil {
			w.fail(err)
		}
	}
}

// next takes back a batch that was written and returns what to write next. If that is nil, nobody
// flushes any more.
func (w *lineWriter) next(written []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 && w.err == nil {
		batch := w.pending
		if written == nil {
			written = w.spare
		}
		w.pending, w.spare = written[:0], nil
		notify(w.room)
		return batch
	}
	if cap(written) <= keepBuffer {
		w.spare = written
	}
	if cap(w.pending) > keepBuffer {
		w.pending = nil
	}
	w.flushing = false
	if w.isOver() {
		w.settle()
	}
	return nil
}

// fail makes err the answer to all later Writes, unless another error was first.
func (w *lineWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = &WriteError{Err: err}
		w.pending = nil
		w.end()
	}
}

// close refuses further Writes. The channel idle tells when what was queued is written.
func (w *lineWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.end()
}

// end wakes those who wait for room. It is called with mu held, after closed or err was set.
func (w *lineWriter) end() {
	closeOnce(w.over)
	if !w.flushing {
		w.settle()
	}
}

// settle says that nothing will be written any more. It is called with mu held.
func (w *lineWriter) settle() { closeOnce(w.idle) }

// awaitIdle waits until nothing is being written, at most for d.
func (w *lineWriter) awaitIdle(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.idle:
	case <-timer.C:
	}
}

// closeOnce closes a channel that may be closed already. The caller sees to it that nobody else does so
// at the same time.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
