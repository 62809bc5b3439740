package rpc

import (
	"time"

	"github.com/parley-mcp/parley/call"
)

// deadlineTimer is the one timer for the deadlines of all requests of an Outbound. A timer for
// each request would cost two allocations and an entry in the timer heap of the runtime,
// although few requests reach their deadline.
//
// Invariant: while a request in flight has a deadline, the timer is set and fires no later than
// the first deadline. It may fire too early, which has no effect, because the end of a request
// does not reset it.
type deadlineTimer struct {
	timer *time.Timer // nil until needed
	at    time.Time   // when it fires; zero if it is not set
}

// schedule sets the timer for p. It is called with mu held, when p begins and when its deadline
// may have moved forward.
func (o *Outbound) schedule(p *pending) {
	p.mu.Lock()
	deadline := p.deadline
	p.mu.Unlock()
	if !deadline.IsZero() && o.failed == nil {
		o.setTimer(deadline)
	}
}

// setTimer is called with mu held.
func (o *Outbound) setTimer(deadline time.Time) {
	t := &o.deadlines
	if !t.at.IsZero() && !deadline.Before(t.at) {
		return
	}
	t.at = deadline
	if t.timer == nil {
		t.timer = time.AfterFunc(time.Until(deadline), o.expire)
	} else {
		t.timer.Reset(time.Until(deadline))
	}
}

// Release releases the timer of an Outbound that has no requests in flight, and sends no more. Otherwise the timer keeps the
// Outbound and its Wire in memory until the last deadline.
func (o *Outbound) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopTimer()
}

// stopTimer is called with mu held.
func (o *Outbound) stopTimer() {
	o.deadlines.at = time.Time{}
	if o.deadlines.timer != nil {
		o.deadlines.timer.Stop()
	}
}

// expire cancels the requests whose deadline has passed and sets the timer for the next one.
func (o *Outbound) expire() {
	expired := make(map[*pending]error)
	o.mu.Lock()
	o.deadlines.at = time.Time{}
	now := time.Now()
	for _, p := range o.pending {
		if err := p.expire(now); err != nil {
			expired[p] = err
		} else {
			o.schedule(p)
		}
	}
	o.mu.Unlock()
	for p, err := range expired { // without mu, because cancel runs functions of the caller's context
		p.cancel(err)
	}
}

// expire returns the error of a request whose deadline has passed, once.
func (p *pending) expire(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline.IsZero() || now.Before(p.deadline) {
		return nil
	}
	p.deadline = time.Time{}
	return &call.TimeoutError{Method: p.req.Method, After: p.allowed}
}
