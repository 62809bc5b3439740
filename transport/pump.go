package transport

import (
	"io"
	"os"
	"sync"
	"time"
)

// pump makes any reader interruptible: a goroutine, started by the first Read, reads one window ahead.
// It ends when the reader ends, or at the first opportunity after stop.
type pump struct {
	src    io.Reader
	chunks chan chunk    // from the goroutine
	taken  chan struct{} // to the goroutine: its buffer is free again
	quit   chan struct{}
	done   chan struct{} // closed when the goroutine is gone

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

func newPump(src io.Reader) *pump {
	return &pump{
		src:         src,
		chunks:      make(chan chunk),
		taken:       make(chan struct{}),
		quit:        make(chan struct{}),
		done:        make(chan struct{}),
		interrupted: make(chan struct{}),
	}
}

// Read implements io.Reader, for one reader at a time.
func (p *pump) Read(b []byte) (int, error) {
	p.start.Do(func() { go p.run() })
	if len(p.rest.bytes) == 0 && p.rest.err == nil {
		p.mu.Lock()
		interrupted := p.interrupted
		p.mu.Unlock()
		select {
		case p.rest = <-p.chunks:
		case <-interrupted:
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(b, p.rest.bytes)
	p.rest.bytes = p.rest.bytes[n:]
	if len(p.rest.bytes) > 0 {
		return n, nil
	}
	if p.rest.err != nil {
		return n, p.rest.err
	}
	select {
	case p.taken <- struct{}{}:
	case <-p.done:
	}
	return n, nil
}

func (p *pump) run() {
	defer close(p.done)
	buf := make([]byte, windowSize)
	for {
		n, err := p.src.Read(buf)
		select {
		case p.chunks <- chunk{buf[:n], err}:
		case <-p.quit:
			return
		}
		if err != nil {
			return
		}
		select {
		case <-p.taken:
		case <-p.quit:
			return
		}
	}
}

// SetReadDeadline interrupts Read for any time but zero, and ends the interruption for zero.
func (p *pump) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.interrupted:
		if t.IsZero() {
			p.interrupted = make(chan struct{})
		}
	default:
		if !t.IsZero() {
			close(p.interrupted)
		}
	}
	return nil
}

// awaitEnd tells the goroutine to end and waits for it, at most for d: it may be in a Read of src that
// nothing interrupts, such as that of a terminal.
func (p *pump) awaitEnd(d time.Duration) {
	p.stop.Do(func() { close(p.quit) })
	p.start.Do(func() { close(p.done) }) // it never ran
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}
