package httpwire

import (
	"context"
	"sync"
	"time"
)

// storeTimeout is the time-out of store operations that belong to no request.
const storeTimeout = 5 * time.Second

// timeout is a context that ends at a time. Unlike that of context.WithTimeout it has no timer
// until Done is called: most store operations in memory do not wait. stop must be called when
// it is no longer used.
type timeout struct {
	at time.Time

	mu     sync.Mutex
	inner  context.Context // nil until Done is called
	cancel context.CancelFunc
}

var _ context.Context = (*timeout)(nil)

// Deadline implements context.Context.
func (t *timeout) Deadline() (time.Time, bool) { return t.at, true }

// Done implements context.Context.
func (t *timeout) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		t.inner, t.cancel = context.WithDeadline(context.Background(), t.at)
	}
	return t.inner.Done()
}

// Err implements context.Context.
func (t *timeout) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.inner != nil:
		return t.inner.Err()
	case !time.Now().Before(t.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (t *timeout) Value(any) any { return nil }

// stop releases the timer, if there is one.
func (t *timeout) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
	}
}
