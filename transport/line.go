package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// windowSize is the size of a read buffer.
const windowSize = 64 << 10

// window is a read buffer. It is internal to this package.
type window [windowSize]byte

// windows are the unused buffers of all connections. A large message needs several for a short time.
var windows = sync.Pool{New: func() any { return new(window) }}

// lineReader splits a byte stream into messages. The result does not depend on how the bytes are split
// over reads. A lineReader uses at most as much memory as its limit and two windows, plus a copy of the
// message while it is assembled.
//
// Invariant: full followed by buf[start:end] are the bytes that were read and not returned. Neither full
// nor the first scanned bytes after start contain a line feed.
type lineReader struct {
	src   io.Reader
	limit int

	full                []*window // the beginning of a message that did not fit into buf
	buf                 *window
	start, end, scanned int
	skipping            *skipped // a line that is too large; nil: none
	err                 error    // the final error of src
}

// next returns the next message. It returns os.ErrDeadlineExceeded if src does; the reader can be used
// again then.
func (l *lineReader) next() ([]byte, error) {
	if l.buf == nil {
		l.buf = windows.Get().(*window)
	}
	for {
		if i := bytes.IndexByte(l.buf[l.start+l.scanned:l.end], '\n'); i >= 0 {
			size := l.scanned + i
			msg, err := l.take(size)
			if errors.Is(err, errTooLarge) {
				err, size = l.skip(size, true), 0
			}
			l.consume(size + 1)
			if msg != nil || err != nil {
				return msg, err
			}
			continue
		}
		l.scanned = l.end - l.start
		if l.skipping != nil || l.tooLarge() {
			if err := l.skip(l.scanned, l.err == io.EOF); err != nil {
				return nil, err
			}
		}
		if l.err != nil {
			// The rest is a complete line only if the stream has ended without an error.
			if size := l.scanned; l.err == io.EOF && len(l.full)*windowSize+size > 0 {
				msg, err := l.take(size)
				l.consume(size)
				if isCut(msg) {
					l.err = fmt.Errorf("transport: the stream has ended after %d bytes of a message: %w", len(msg),
						io.ErrUnexpectedEOF)
				} else if msg != nil || err != nil {
					return msg, err
				}
			}
			return nil, l.err
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// skipped is a line that is too large. Its error is returned once: at the end of the line, where the ID has been
// found wherever it stands, or when the line is maxSkipped times as long as the limit.
type skipped struct {
	size     int
	envelope jsonscan.Envelope
	reported bool
}

// maxSkipped bounds how much of a line without an end is skipped before it is reported.
const maxSkipped = 16

// skip skips full and the next size bytes of buf, after which the line may end. It returns the error of the line once.
func (l *lineReader) skip(size int, ends bool) error {
	if l.skipping == nil {
		l.skipping = new(skipped)
	}
	s := l.skipping
	for _, w := range l.full {
		s.size += len(w)
		s.envelope.Write(w[:])
	}
	s.size += size
	if !s.reported {
		s.envelope.Write(l.buf[l.start : l.start+size])
	}
	l.consume(size)
	if ends {
		l.skipping = nil
	}
	if s.reported || !ends && s.size/maxSkipped <= l.limit {
		return nil
	}
	s.reported = true
	return newTooLargeError(l.limit, &s.envelope)
}

// isCut reports whether a last line without a line feed is the beginning of a JSON object or array, because the peer
// died while it wrote the line.
func isCut(line []byte) bool {
	start := jsonscan.SkipSpace(line, 0)
	if start == len(line) || line[start] != '{' && line[start] != '[' {
		return false
	}
	return jsonscan.SkipValue(append(line, ' '), start) > len(line) // skips the space, too, if the value has no end
}

// buffered returns the next message if it has been read completely, and otherwise nil. It leaves a
// message that is too large to next.
func (l *lineReader) buffered() []byte {
	for l.buf != nil && l.skipping == nil {
		i := bytes.IndexByte(l.buf[l.start+l.scanned:l.end], '\n')
		if i < 0 {
			l.scanned = l.end - l.start
			return nil
		}
		size := l.scanned + i
		msg, err := l.take(size)
		if err != nil {
			return nil
		}
		l.consume(size + 1)
		if msg != nil {
			return msg
		}
	}
	return nil
}

// tooLarge reports whether the incomplete line already exceeds the limit. A carriage return at the end
// does not count, because a line feed may follow.
func (l *lineReader) tooLarge() bool {
	size := len(l.full)*windowSize + l.scanned
	return size > l.limit+1 || size == l.limit+1 && l.lastByte(l.scanned) != '\r'
}

// lastByte returns the byte before buf[start+size], which must exist.
func (l *lineReader) lastByte(size int) byte {
	if size == 0 {
		return l.full[len(l.full)-1][windowSize-1]
	}
	return l.buf[l.start+size-1]
}

// errTooLarge is the error of take for a line that is too large.
var errTooLarge = errors.New("line too large")

// take returns the message that ends at buf[start+size], or nil if it is empty. The error is errTooLarge.
func (l *lineReader) take(size int) ([]byte, error) {
	if l.skipping != nil {
		return nil, errTooLarge
	}
	total := len(l.full)*windowSize + size
	if total > 0 && l.lastByte(size) == '\r' {
		total--
	}
	if total > l.limit {
		return nil, errTooLarge
	}
	if total == 0 {
		return nil, nil
	}
	msg := make([]byte, total)
	n := 0
	for _, w := range l.full {
		n += copy(msg[n:], w[:])
	}
	copy(msg[n:], l.buf[l.start:l.start+size])
	return msg, nil
}

// consume removes full and size bytes of buf.
func (l *lineReader) consume(size int) {
	for _, w := range l.full {
		windows.Put(w)
	}
	l.full = nil
	l.start += size
	l.scanned = 0
	if l.start == l.end {
		l.start, l.end = 0, 0
	}
}

// fill reads more bytes into buf. If buf is full, it first moves its contents.
func (l *lineReader) fill() error {
	if l.end == windowSize {
		if l.start > 0 {
			l.end = copy(l.buf[:], l.buf[l.start:])
			l.start = 0
		} else {
			l.full = append(l.full, l.buf)
			l.buf = windows.Get().(*window)
			l.end, l.scanned = 0, 0
		}
	}
	var n int
	var err error
	for range 100 { // like bufio, for streams that return 0 bytes and no error
		if n, err = l.src.Read(l.buf[l.end:]); n > 0 || err != nil {
			break
		}
	}
	l.end += n
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			return nil // scan the bytes first; the next Read returns the error again
		}
		return err
	}
	l.err = err
	return nil
}

const (
	// defaultMaxPending is the default of StreamOptions.MaxPending.
	defaultMaxPending = 1 << 20

	// maxIdleBuffer is the maximum size of a buffer that an idle connection keeps.
	maxIdleBuffer = 64 << 10
)

// lineWriter writes messages in batches (group commit). Each write appends to a queue. If no flush is running, it
// starts a goroutine that writes the queue until it is empty. That way, a write never waits for I/O, concurrent
// messages are written in one batch, and an idle connection has no goroutine.
//
// The flush runs in a goroutine and not in the first caller, because it then starts after the other goroutines
// that are ready to write. With 64 calls in flight, this halves the time per message; a single call takes a
// microsecond longer. A caller that knows that it will write more calls write with buffer set, and flushBuffered
// at the end.
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
	used     bool // there was a message to write
	closed   bool
	err      *WriteError // the first error

	space   chan struct{} // holds a token when the queue may have space
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

// directSize is the size in bytes from which write, if buffer is set, writes a message itself.
const directSize = 64 << 10

// write queues msg. If buffer is set, it does not start a flush unless the queue is full, and it writes a
// large message itself, without copying it, if no flush is running. In that case, it may append a byte to
// msg within its capacity.
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
	if !w.flushing && (!buffer || len(w.pending) >= w.maxPending) {
		w.flushing, w.used = true, true
		go w.start()
	}
	return nil
}

// writeDirect writes the queue and msg. The caller holds mu, which is unlocked while it writes, and no
// flush is running.
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
		if err := writeAll(w.dst, batch); err != nil {
			w.fail(err)
			break
		}
	}
	w.flush() // messages that were queued in the meantime
	w.mu.Lock()
	if w.err != nil {
		return w.err
	}
	return nil
}

// writeAll writes batch. If a Writer writes less without an error, which it must not do, that counts as a
// failure.
func writeAll(w io.Writer, batch []byte) error {
	n, err := w.Write(batch)
	if err == nil && n < len(batch) {
		err = io.ErrShortWrite
	}
	return err
}

// isWritten reports whether all messages, at least one, are written to dst.
func (w *lineWriter) isWritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used && !w.flushing && len(w.pending) == 0 && w.err == nil
}

// isUsed reports whether there has been a message to write.
func (w *lineWriter) isUsed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// flushBuffered writes the buffered messages, unless a running flush does.
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
		if err := writeAll(w.dst, batch); err != nil {
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
	if len(w.pending) > 0 && !w.flushing { // there are buffered messages
		w.flushing, w.used = true, true
		go w.start()
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

// awaitIdle waits until idle is closed, but at most for d.
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
