package httpwire

import (
	"context"
	"sync"
	"time"
)

// maxRequests bounds the requests that a server has in flight, open streams included.
const maxRequests = 16_384

// tracker knows the requests in flight, so that a shutdown can wait for them, and
// their streams need no timers of their own.
type tracker struct {
	mu        sync.Mutex
	n         int
	closed    bool
	closing   chan struct{} // closed with closed; made when first needed
	cancelled bool
	idle      chan struct{} // closed when the last one is done after close
	requests  *trackedRequest
	timer     *time.Timer // for beat; nil until needed
	armed     bool        // beat will be called
	ticks     int         // how often it has been

	base   context.Context // ends with cancelAll; made when first needed
	cancel context.CancelCauseFunc
}

// lifetime returns the context that ends when cancelAll is called.
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

// flight is a request in flight that the tracker can reach. It is part of what serves
// the request.
type trackedRequest struct {
	prev, next *trackedRequest
	cancel     canceler     // for cancelAll; nil: it does without
	stream     *eventStream // to be kept alive; nil: none is
	since      int          // the beat after which the stream began, or had its last comment
}

// canceler is what ends with an error: a call, or the context of something else.
type canceler interface{ Cancel(cause error) }

type cancelFunc context.CancelCauseFunc

// Cancel implements canceler.
func (f cancelFunc) Cancel(cause error) { f(cause) }

// enter counts one more request, which leave takes off again, unless there are too
// many or none is wanted anymore.
func (t *tracker) enter() (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.n >= maxRequests {
		return false
	}
	t.n++
	return true
}

func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.closed && t.n == 0 {
		close(t.idle)
	}
}

// watch has cancelAll cancel f, or does it itself if that has been called before, and
// keeps f's stream alive, every so often, which is the same for all. Forget ends both.
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

// beatsPerComment is how finely the tracker measures time.
const ticksPerComment = 16

// beat writes the comments that are due. Few requests take as long as until their first
// comment, and even to ask the clock when they began would show in what they cost; so
// one timer counts for all, while there are any. A comment may come a beat too early.
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

// close lets no more requests in, and returns a channel that is closed when all are done.
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

// whenClosing returns a channel that is closed when no more requests are let in.
func (t *tracker) closingSignal() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing == nil {
		t.closing = make(chan struct{})
	}
	return t.closing
}

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
