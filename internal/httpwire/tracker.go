package httpwire

import (
	"context"
	"sync"
)

// maxRequests bounds the requests that a server has in flight, open streams included.
const maxRequests = 16_384

// tracker knows the requests in flight, so that a shutdown can wait for them.
type tracker struct {
	mu        sync.Mutex
	n         int
	closed    bool
	closing   chan struct{} // closed with closed; made when first needed
	cancelled bool
	idle      chan struct{} // closed when the last one is done after close
	last      uint64
	cancels   map[uint64]context.CancelCauseFunc

	base   context.Context // ends with cancelAll; made when first needed
	cancel context.CancelCauseFunc
}

// detached is a context with the values of a request's and the end of the
// server's. It costs less than one that is made by package context for each
// request, which calls of sessions would pay for twice.
type detached struct {
	context.Context // the server's
	values          context.Context
}

func (d *detached) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}

// detach returns a context with the values of request, which ends when cancelAll is
// called and not when the client goes away.
func (t *tracker) detach(request context.Context) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base == nil {
		t.base, t.cancel = context.WithCancelCause(context.Background())
		if t.cancelled {
			t.cancel(errShutdown)
		}
	}
	return &detached{t.base, request}
}

// enter counts one more request, unless there are too many or none is wanted anymore.
func (t *tracker) enter() (done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.n >= maxRequests {
		return nil, false
	}
	t.n++
	return t.leave, true
}

func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.closed && t.n == 0 {
		close(t.idle)
	}
}

// onCancel has cancel called by cancelAll, until the function it returns is called.
// If cancelAll has been called before, so is cancel.
func (t *tracker) onCancel(cancel context.CancelCauseFunc) (forget func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancelled {
		cancel(errShutdown)
		return func() {}
	}
	if t.cancels == nil {
		t.cancels = make(map[uint64]context.CancelCauseFunc)
	}
	t.last++
	id := t.last
	t.cancels[id] = cancel
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.cancels, id)
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
func (t *tracker) whenClosing() <-chan struct{} {
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
	for _, cancel := range t.cancels {
		cancel(errShutdown)
	}
}
