package httpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
)

// maxRequests is the limit of requests in flight on one server, open streams included.
const maxRequests = 16_384

var errShutdown = errors.New("server shut down")

// tracker tracks the requests. Shutdown waits for those in flight. One timer sends the keep-alive comments of all
// streams and bounds the time for reading all bodies. The zero tracker is ready for use. It is safe for concurrent use.
type tracker struct {
	mu        sync.Mutex
	n         int // requests in flight
	closed    bool
	closing   chan struct{} // closed by close; made on first use
	cancelled bool
	idle      chan struct{}   // closed when close was called and no request is in flight
	requests  *trackedRequest // all of them, also while their bodies are read
	timer     *time.Timer     // calls tick; made on first use
	armed     bool            // the timer runs
	ticks     int32           // number of calls of tick

	// period is the time between two ticks; 0 before the first request.
	period          time.Duration
	ticksPerComment int32

	base   context.Context // cancelled by cancelAll; made on first use
	cancel context.CancelCauseFunc
}

// lifetime returns a context that cancelAll cancels.
func (t *tracker) lifetime() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base == nil {
		t.base, t.cancel = context.WithCancelCause(context.Background())
		if t.cancelled {
			t.cancel(errShutdown)
		}
	}
	return t.base
}

// trackedRequest is the list element of one request. It is embedded in the state of the
// request, so that tracking allocates nothing.
type trackedRequest struct {
	prev, next *trackedRequest
	cancel     rpc.Canceler // called by cancelAll; may be nil
	stream     *eventStream // receives keep-alive comments; may be nil
	since      int32        // the value of ticks when stream was set, or at the last comment
	reading    bool         // the body of the request is being read
	entered    bool         // counted in n
}

type cancelFunc context.CancelCauseFunc

// Cancel implements rpc.Canceler.
func (f cancelFunc) Cancel(cause error) { f(cause) }

// begin registers a request with this response, whose body the caller reads. If the body does not arrive within
// readTimeout, reading it fails. Each begin must be followed by leave, before the handler returns. Streams get a
// keep-alive comment per interval every, which must be the same in all calls.
func (t *tracker) begin(f *trackedRequest, response *eventStream, every time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.period == 0 {
		t.period = max(min(every, readTimeout)/ticksPerInterval, time.Millisecond)
		t.ticksPerComment = int32(every / t.period)
	}
	if f.next = t.requests; f.next != nil {
		f.next.prev = f
	}
	t.requests = f
	f.stream, f.reading = response, true
	t.arm(f)
}

// arm starts the timer for a request that needs it from now on. The caller holds mu.
func (t *tracker) arm(f *trackedRequest) {
	f.since = t.ticks
	if t.armed {
		return
	}
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(t.period, t.tick)
	} else {
		t.timer.Reset(t.period)
	}
}

// enter counts a request whose body has been read. The error is errShutdown after close, and
// errTooManyRequests if the limit is reached.
func (t *tracker) enter(f *trackedRequest) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.stream, f.reading = nil, false
	switch {
	case t.closed:
		return errShutdown
	case t.n >= maxRequests:
		return errTooManyRequests
	}
	f.entered = true
	t.n++
	return nil
}

// watch makes cancelAll cancel what the response e breaks, if anything. Streams means that the response can become an
// event stream, which the tracker keeps alive. If cancelAll was called before, watch cancels the request.
func (t *tracker) watch(f *trackedRequest, e *eventStream, streams bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.cancel = e.broken
	if t.cancelled && f.cancel != nil {
		f.cancel.Cancel(errShutdown)
	}
	if streams {
		f.stream = e
		t.arm(f)
	}
}

// leave ends the tracking of a request.
func (t *tracker) leave(f *trackedRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.next != nil {
		f.next.prev = f.prev
	}
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		t.requests = f.next
	}
	if !f.entered {
		return
	}
	t.n--
	if t.closed && t.n == 0 {
		close(t.idle)
	}
}

// ticksPerInterval is the number of timer ticks in one keep-alive interval or in readTimeout, whichever is shorter.
const ticksPerInterval = 16

// tick writes the keep-alive comments that are due, and ends the reading of bodies that are
// late. One coarse timer serves all requests, because most of them end before the first tick,
// and a deadline for each of them costs measurable time. A comment can be one tick early.
func (t *tracker) tick() {
	var due []*eventStream
	t.mu.Lock()
	t.ticks++
	t.armed = false
	for f := t.requests; f != nil; f = f.next {
		switch passed := t.ticks - f.since; {
		case f.reading:
			t.armed = true
			if time.Duration(passed)*t.period > readTimeout {
				expireRead(f.stream.w) // does not block
			}
		case f.stream != nil:
			t.armed = true
			if passed >= t.ticksPerComment {
				f.since = t.ticks
				due = append(due, f.stream)
			}
		}
	}
	if t.armed {
		t.timer.Reset(t.period)
	}
	t.mu.Unlock()
	for _, e := range due {
		e.keepAlive()
	}
}

// close makes enter reject new requests. It returns a channel that is closed when no request is in flight.
func (t *tracker) close() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed, t.idle = true, make(chan struct{})
		if t.closing == nil {
			t.closing = make(chan struct{})
		}
		close(t.closing)
		if t.n == 0 {
			close(t.idle)
		}
	}
	return t.idle
}

// closingSignal returns a channel that is closed when close is called.
func (t *tracker) closingSignal() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing == nil {
		t.closing = make(chan struct{})
	}
	return t.closing
}

// cancelAll cancels lifetime and all watched requests, with cause errShutdown.
func (t *tracker) cancelAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelled = true
	if t.cancel != nil {
		t.cancel(errShutdown)
	}
	for f := t.requests; f != nil; f = f.next {
		if f.cancel != nil {
			f.cancel.Cancel(errShutdown)
		}
	}
}
