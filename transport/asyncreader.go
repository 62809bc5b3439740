package transport

import (
	"io"
	"os"
	"sync"
	"time"
)

// asyncReader makes any reader interruptible. The first Read starts a goroutine that reads one window
// ahead. The goroutine ends when the reader returns an error, or after awaitEnd.
type asyncReader struct {
	src    io.Reader
	chunks chan chunk    // from the goroutine
	taken  chan struct{} // to the goroutine: its buffer may be reused
	quit   chan struct{}
	done   chan struct{} // closed when the goroutine has ended

	start sync.Once
	stop  sync.Once
	rest  chunk // received and not returned yet

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

// awaitEnd stops the goroutine and waits for it, at most for d: a Read of src may not be interruptible,
// for example from a terminal.
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
