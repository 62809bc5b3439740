package rpc

import (
	"time"

	"github.com/parley-mcp/parley/call"
)

// alarm is the one timer that ends the requests of an Outbound whose time is up. A timer
// for each would cost every request two allocations and a place in the runtime's heap of
// timers, for an end that hardly any of them meets.
//
// Invariant: while a request in flight has a time-out, the alarm is set, and goes off no
// later than the first of them is due. It may go off too early, which does nothing: most
// requests are answered, and none takes the alarm back.
type alarm struct {
	timer *time.Timer // nil until needed
	at    time.Time   // when it goes off; zero when it is not set
}

// watch sets the alarm for p too. It is called with mu held, whenever p begins or may
// have become due earlier than it was.
func (o *Outbound) watch(p *pending) {
	p.mu.Lock()
	due := p.due
	p.mu.Unlock()
	if !due.IsZero() && o.failed == nil {
		o.setAlarm(due)
	}
}

// setAlarm is called with mu held.
func (o *Outbound) setAlarm(due time.Time) {
	a := &o.alarm
	if !a.at.IsZero() && !due.Before(a.at) {
		return
	}
	a.at = due
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(due), o.ring)
	} else {
		a.timer.Reset(time.Until(due))
	}
}

// stopAlarm is called with mu held, when nothing is in flight any more.
func (o *Outbound) stopAlarm() {
	o.alarm.at = time.Time{}
	if o.alarm.timer != nil {
		o.alarm.timer.Stop()
	}
}

// ring gives up the requests that are due, and sets the alarm for the next.
func (o *Outbound) ring() {
	late := make(map[*pending]error)
	o.mu.Lock()
	o.alarm.at = time.Time{}
	now := time.Now()
	for _, p := range o.pending {
		if err := p.expire(now); err != nil {
			late[p] = err
		} else {
			o.watch(p)
		}
	}
	o.mu.Unlock()
	for p, err := range late { // without mu: it runs what others have made of the context
		p.cancel(err)
	}
}

// expire returns the error of a request that is due, once.
func (p *pending) expire(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due.IsZero() || now.Before(p.due) {
		return nil
	}
	p.due = time.Time{}
	return &call.TimeoutError{Method: p.req.Method, After: p.given}
}
