package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// StreamOptions are the limits of a connection over a byte stream. The zero value means the
// defaults.
type StreamOptions struct {
	// MaxMessage is the maximum size of a message that Read returns, in bytes without its line
	// break. 0 means DefaultServerMaxMessage.
	MaxMessage int

	// MaxPending is the size of the write queue in bytes. Write waits while the queue has this
	// size or more, so the last message may exceed it. A batch of up to the same size may be in
	// the process of being written. 0 means 1 MiB.
	MaxPending int

	// FlushTimeout limits the time that Close waits for the queue to be written. 0 means one
	// second.
	FlushTimeout time.Duration
}

const defaultFlushTimeout = time.Second

// Stream returns a Conn with one message per line over rwc. The Conn owns rwc. rwc.Close must
// interrupt concurrent calls of rwc.Read and rwc.Write, as it does for network connections and
// pipes.
//
// If rwc has a working SetReadDeadline, the Conn uses it to interrupt a Read whose context ends.
// Otherwise a goroutine reads up to 64 KiB ahead until Close.
func Stream(rwc io.ReadWriteCloser, opts StreamOptions) Conn {
	return newStream(rwc, rwc, rwc.Close, opts)
}

// source is a reader whose Read can be interrupted.
type source interface {
	io.Reader
	// SetReadDeadline is called with the zero time and with times in the past only.
	SetReadDeadline(time.Time) error
}

// longAgo is a deadline that interrupts a Read at once.
var longAgo = time.Unix(1, 0)

// stream implements Conn with a reader and a writer.
type stream struct {
	src          source
	out          *lineWriter
	flushTimeout time.Duration
	closeEnds    func() error

	readMu sync.Mutex // held during Read
	lines  lineReader

	watchMu    sync.Mutex
	watched    <-chan struct{} // Done channel of the context whose end interrupts src; may be nil
	unwatch    func() bool     // stops watching that context
	generation uint64          // incremented with each watched context, to ignore late interruptions
	closed     bool            // closed: src stays interrupted

	closeOnce sync.Once
	closeErr  error
}

func newStream(r io.Reader, w io.Writer, closeEnds func() error, opts StreamOptions) *stream {
	if opts.MaxMessage <= 0 {
		opts.MaxMessage = DefaultServerMaxMessage
	}
	if opts.FlushTimeout <= 0 {
		opts.FlushTimeout = defaultFlushTimeout
	}
	s := &stream{
		src:          interruptible(r),
		out:          newLineWriter(w, opts.MaxPending),
		flushTimeout: opts.FlushTimeout,
		closeEnds:    closeEnds,
	}
	s.lines = lineReader{src: s.src, limit: opts.MaxMessage}
	return s
}

func interruptible(r io.Reader) source {
	if s, ok := r.(source); ok && s.SetReadDeadline(time.Time{}) == nil {
		return s
	}
	return newAsyncReader(r)
}

// Read implements [Conn].
func (s *stream) Read(ctx context.Context) ([]byte, error) {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	for {
		if err := s.watch(ctx); err != nil {
			return nil, err
		}
		msg, err := s.lines.next()
		if err == nil || err == io.EOF {
			return msg, err
		}
		if ended := s.ended(ctx); ended != nil {
			return nil, ended
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
	}
}

// ended returns the reason for an interruption, or nil if there is none.
func (s *stream) ended(ctx context.Context) error {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return ctx.Err()
}

// watch makes the end of ctx interrupt src. The watch stays in effect for the next Read, because most
// readers use the same context each time.
func (s *stream) watch(ctx context.Context) error {
	if err := s.ended(ctx); err != nil {
		return err
	}
	if ctx.Done() == s.watched {
		return nil
	}
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	s.generation++
	s.watched = ctx.Done()
	s.src.SetReadDeadline(time.Time{})
	if s.watched == nil {
		return nil
	}
	generation := s.generation
	s.unwatch = context.AfterFunc(ctx, func() {
		s.watchMu.Lock()
		defer s.watchMu.Unlock()
		if s.generation == generation && !s.closed {
			s.src.SetReadDeadline(longAgo)
		}
	})
	return nil
}

// closeReading interrupts reading permanently.
func (s *stream) closeReading() {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	s.closed = true
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	s.src.SetReadDeadline(longAgo)
}

// ReadBuffered returns the next message if it has arrived completely, without reading from the
// underlying stream. It returns nil if there is no such message, if the message is too large, and after
// Close; call Read then. The caller owns the slice.
func (s *stream) ReadBuffered() []byte {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	if s.ended(context.Background()) != nil {
		return nil
	}
	return s.lines.buffered()
}

// Write implements [Conn].
func (s *stream) Write(ctx context.Context, msg []byte) error { return s.out.write(ctx, msg, false) }

// WriteBuffered is like Write, but does not send the message before the next Flush, Write or Close, unless
// the queue is full.
func (s *stream) WriteBuffered(ctx context.Context, msg []byte) error {
	return s.out.write(ctx, msg, true)
}

// Flush sends the messages of WriteBuffered. It returns when they are written, or at once if another
// goroutine is writing.
func (s *stream) Flush() { s.out.flushBuffered() }

// PeerReads reports whether the peer can still receive messages, as far as this is known without sending one. Only the
// connections of [Stdio] know.
func (s *stream) PeerReads() bool {
	file, ok := s.out.dst.(*os.File)
	return ok && isRead(file)
}

// Close implements [Conn].
func (s *stream) Close() error {
	s.closeOnce.Do(func() {
		s.closeReading()
		s.out.close()
		s.out.awaitIdle(s.flushTimeout)
		s.closeErr = s.closeEnds()
		s.awaitGoroutines()
	})
	return s.closeErr
}

// awaitGoroutines waits for the goroutines that closeEnds has interrupted. The wait has a limit, because
// a stream may violate the contract of Stream.
func (s *stream) awaitGoroutines() {
	s.out.awaitIdle(s.flushTimeout)
	if r, ok := s.src.(*asyncReader); ok {
		r.awaitEnd(s.flushTimeout)
	}
}

// asyncReader makes any reader interruptible. The first Read starts a goroutine that reads one window
// ahead. The goroutine ends when the reader returns an error, or after awaitEnd.
type asyncReader struct {
	src    io.Reader
	chunks chan chunk    // sent by the goroutine
	taken  chan struct{} // tells the goroutine that its buffer may be reused
	quit   chan struct{}
	done   chan struct{} // closed when the goroutine has ended

	start sync.Once
	stop  sync.Once
	rest  chunk // received but not yet returned

	mu          sync.Mutex
	interrupted chan struct{} // closed while the deadline is in the past
}

type chunk struct {
	bytes []byte
	err   error
}

func newAsyncReader(src io.Reader) *asyncReader {
	return &asyncReader{
		src:         src,
		chunks:      make(chan chunk),
		taken:       make(chan struct{}),
		quit:        make(chan struct{}),
		done:        make(chan struct{}),
		interrupted: make(chan struct{}),
	}
}

// Read implements io.Reader. It must not be called concurrently.
func (r *asyncReader) Read(b []byte) (int, error) {
	r.start.Do(func() { go r.run() })
	if len(r.rest.bytes) == 0 && r.rest.err == nil {
		r.mu.Lock()
		interrupted := r.interrupted
		r.mu.Unlock()
		select {
		case r.rest = <-r.chunks:
		case <-interrupted:
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(b, r.rest.bytes)
	r.rest.bytes = r.rest.bytes[n:]
	if len(r.rest.bytes) > 0 {
		return n, nil
	}
	if r.rest.err != nil {
		return n, r.rest.err
	}
	select {
	case r.taken <- struct{}{}:
	case <-r.done:
	}
	return n, nil
}

func (r *asyncReader) run() {
	defer close(r.done)
	buf := make([]byte, windowSize)
	for {
		n, err := r.src.Read(buf)
		select {
		case r.chunks <- chunk{buf[:n], err}:
		case <-r.quit:
			return
		}
		if err != nil {
			return
		}
		select {
		case <-r.taken:
		case <-r.quit:
			return
		}
	}
}

// SetReadDeadline interrupts Read if t is not zero, and ends the interruption if it is.
func (r *asyncReader) SetReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.interrupted:
		if t.IsZero() {
			r.interrupted = make(chan struct{})
		}
	default:
		if !t.IsZero() {
			close(r.interrupted)
		}
	}
	return nil
}

// awaitEnd stops the goroutine and waits for it, but at most for d: a Read of src may not be
// interruptible, for example from a terminal.
func (r *asyncReader) awaitEnd(d time.Duration) {
	r.stop.Do(func() { close(r.quit) })
	r.start.Do(func() { close(r.done) }) // the goroutine was never started
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	}
}
