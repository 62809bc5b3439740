package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
)

// maxQueuedProgress bounds the reports that wait for a slow OnProgress; beyond it
// the newest replaces the one before.
const maxQueuedProgress = 256

// pending is one request in flight.
type pending struct {
	id     jsonrpc.ID
	req    *Request
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	queue    []Progress
	wake     chan struct{} // capacity 1: the queue has something, or the end has come
	resp     Response
	err      error
	answered bool

	due      time.Time     // when it is given up, see alarm; zero without time-outs, and once it is
	given    time.Duration // how long it will have had then
	deadline time.Time     // MaxTimeout; zero for none
	holds    int           // see Outbound.Hold
}

// startClock begins the time-outs. It returns what is to be waited for, nil for
// nothing, before they begin to count.
func (p *pending) startClock(o *Outbound) (started <-chan struct{}) {
	var allowance time.Duration
	if o.Started != nil && o.StartAllowance > 0 {
		select {
		case <-o.Started:
		default:
			started, allowance = o.Started, o.StartAllowance
		}
	}
	p.setClock(allowance)
	return started
}

// setClock begins the time-outs anew, after an allowance.
func (p *pending) setClock(allowance time.Duration) {
	d, most := p.req.Timeout, p.req.MaxTimeout
	if d <= 0 && most <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if most > 0 {
		p.deadline = now.Add(allowance + most)
		if d <= 0 || most < d {
			d = most
		}
	}
	if p.holds > 0 {
		p.due, p.given = p.latest(), most
		return
	}
	p.due, p.given = now.Add(allowance+d), allowance+d
}

// progressed sets the time-out back, but not beyond the deadline. It is called
// with mu held.
func (p *pending) progressed() {
	if p.due.IsZero() || p.holds > 0 {
		return
	}
	due, given := p.deadline, p.req.MaxTimeout
	if d := p.req.Timeout; d > 0 {
		if back := time.Now().Add(d); due.IsZero() || back.Before(due) {
			due, given = back, d
		}
	}
	p.due, p.given = due, given
}

// hold stops the time-out, but not the deadline.
func (p *pending) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
	if p.due.IsZero() {
		return
	}
	p.due, p.given = p.latest(), p.req.MaxTimeout
}

// latest is when a request is given up that is held. It is called with mu held.
func (p *pending) latest() time.Time {
	if p.deadline.IsZero() {
		return time.Now().Add(noDeadline)
	}
	return p.deadline
}

// noDeadline is when a request is given up that nothing else bounds.
const noDeadline = 24 * time.Hour

// release has the time-out begin anew.
func (p *pending) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds--
	p.progressed()
}

func (p *pending) answer(resp Response, err error) {
	p.mu.Lock()
	if !p.answered {
		p.answered, p.resp, p.err = true, resp, err
	}
	p.mu.Unlock()
	p.signal()
}

func (p *pending) isAnswered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

func (p *pending) report(report Progress) {
	p.mu.Lock()
	switch {
	case p.answered: // nothing is reported after the response
		p.mu.Unlock()
		return
	case len(p.queue) == maxQueuedProgress:
		p.queue[len(p.queue)-1] = report
	default:
		p.queue = append(p.queue, report)
	}
	p.progressed()
	p.mu.Unlock()
	p.signal()
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// drain runs OnProgress for what is queued, and reports whether the response is there.
func (p *pending) drain() (done bool) {
	p.mu.Lock()
	queue, done := p.queue, p.answered
	p.queue = nil
	p.mu.Unlock()
	for _, report := range queue {
		p.req.OnProgress(report)
	}
	return done
}
