package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// StreamOptions bounds a connection over a byte stream. The zero value is useful.
type StreamOptions struct {
	// MaxMessage is the largest message that Read delivers, in bytes without its line break. 0 means
	// DefaultServerMaxMessage.
	MaxMessage int

	// MaxPending is how many bytes may be queued for writing before Write waits; the message that
	// reaches the bound is still accepted. As much again may be on its way to the stream. 0 means
	// 1 MiB.
	MaxPending int

	// FlushTimeout is how long Close waits for the peer to take what is queued. 0 means one second.
	FlushTimeout time.Duration
}

const defaultFlushTimeout = time.Second

// Stream returns a Conn with one message per line over rwc, which it then owns. Close of rwc must
// interrupt a Read and a Write of rwc that are under way, as it does for network connections, pipes
// and sockets.
//
// If rwc has a SetReadDeadline that works, the Conn uses it to let go of a Read whose context ends.
// Otherwise a goroutine reads ahead, up to 64 KiB, until Close.
func Stream(rwc io.ReadWriteCloser, opts StreamOptions) Conn {
	return newStream(rwc, rwc, rwc.Close, opts)
}

// source is a reader whose Read can be interrupted.
type source interface {
	io.Reader
	// SetReadDeadline is called with the zero time and with times long past.
	SetReadDeadline(time.Time) error
}

// longAgo is a deadline that interrupts at once.
var longAgo = time.Unix(1, 0)

// stream is the Conn over separate ends for reading and for writing.
type stream struct {
	src          source
	out          *lineWriter
	flushTimeout time.Duration
	closeEnds    func() error

	readMu sync.Mutex // held by the one reader
	lines  lineReader

	watchMu  sync.Mutex
	watched  <-chan struct{} // the Done of the context whose end interrupts src; nil for none
	unwatch  func() bool     // stops watching it
	watchers uint64          // how many were watched: tells a late interruption that it is not meant
	closed   bool            // src stays interrupted

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
	return newPump(r)
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

// ended says why reading was interrupted, nil if there is no reason (any more).
func (s *stream) ended(ctx context.Context) error {
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return ctx.Err()
}

// watch makes the end of ctx interrupt reading. Most readers come with the same context each time, so
// the arrangement is kept from one Read to the next: it costs something when the context changes.
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
	s.watchers++
	s.watched = ctx.Done()
	s.src.SetReadDeadline(time.Time{})
	if s.watched == nil {
		return nil
	}
	mine := s.watchers
	s.unwatch = context.AfterFunc(ctx, func() {
		s.watchMu.Lock()
		defer s.watchMu.Unlock()
		if s.watchers == mine && !s.closed {
			s.src.SetReadDeadline(longAgo)
		}
	})
	return nil
}

// closeReading interrupts reading for good.
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

// Write implements [Conn].
func (s *stream) Write(ctx context.Context, msg []byte) error { return s.out.write(ctx, msg) }

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

// awaitGoroutines waits for those that closing the ends has released. A stream that does not release
// them, against the contract of Stream, must not hold up Close for ever.
func (s *stream) awaitGoroutines() {
	s.out.awaitIdle(s.flushTimeout)
	if p, ok := s.src.(*pump); ok {
		p.awaitEnd(s.flushTimeout)
	}
}
