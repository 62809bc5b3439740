package httpwire

import (
	"context"
	"sync"
	"time"
)

// maxRequests is the limit of requests in flight on one server, open streams included.
const maxRequests = 16_384

// tracker tracks the requests in flight. Shutdown waits for them, and one timer sends
// the keep-alive comments of all their streams. The zero tracker is ready for use. It is
// safe for concurrent use.
type tracker struct {
	mu        sync.Mutex
	n         int
	closed    bool
	closing   chan struct{} // closed by close; made on first use
	cancelled bool
	idle      chan struct{} // closed when close was called and no request is in flight
	requests  *trackedRequest
	timer     *time.Timer // calls tick; made on first use
	armed     bool        // the timer runs
	ticks     int         // number of calls of tick

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

// trackedRequest is the list element of one request in flight. It is embedded in the
// state of the request, so that tracking allocates nothing.
type trackedRequest struct {
	prev, next *trackedRequest
	cancel     canceler     // called by cancelAll; may be nil
	stream     *eventStream // receives keep-alive comments; may be nil
	since      int          // the value of ticks at the start of stream or at its last comment
}

// canceler is a call or a context that can be cancelled with a cause.
type canceler interface{ Cancel(cause error) }

type cancelFunc context.CancelCauseFunc

// Cancel implements canceler.
func (f cancelFunc) Cancel(cause error) { f(cause) }

// enter adds a request. It reports false if the limit is reached or close was called.
// Each successful enter must be followed by leave.
func (t *tracker) enter() (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.n >= maxRequests {
		return false
	}
	t.n++
	return true
}

// leave removes a request.
func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.closed && t.n == 0 {
		close(t.idle)
	}
}

// watch registers f until forget. cancelAll cancels f; if it was called before, watch
// cancels f. The stream of f gets a keep-alive comment per interval every, which must be
// the same in all calls.
func (t *tracker) watch(f *trackedRequest, every time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancelled && f.cancel != nil {
		f.cancel.Cancel(errShutdown)
	}
	if f.next = t.requests; f.next != nil {
		f.next.prev = f
	}
	t.requests = f
	if f.stream == nil {
		return
	}
	f.since = t.ticks
	if t.armed {
		return
	}
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(every/ticksPerComment, func() { t.tick(every) })
	} else {
		t.timer.Reset(every / ticksPerComment)
	}
}

// forget reverses watch.
func (t *tracker) forget(f *trackedRequest) {
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
}

// ticksPerComment is the number of timer ticks in one keep-alive interval.
const ticksPerComment = 16

// tick writes the keep-alive comments that are due. One coarse timer serves all streams,
// because most requests end before their first comment, and reading the clock for each
// of them costs measurable time. A comment can be one tick early.
func (t *tracker) tick(every time.Duration) {
	var due []*eventStream
	t.mu.Lock()
	t.ticks++
	t.armed = false
	for f := t.requests; f != nil; f = f.next {
		if f.stream == nil {
			continue
		}
		t.armed = true
		if t.ticks-f.since >= ticksPerComment {
			f.since = t.ticks
			due = append(due, f.stream)
		}
	}
	if t.armed {
		t.timer.Reset(every / ticksPerComment)
	}
	t.mu.Unlock()
	for _, e := range due {
		e.keepAlive()
	}
}

// close makes enter reject new requests. It returns a channel that is closed when no
// request is in flight.
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
