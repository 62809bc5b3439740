package outbound

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/call"
)

// deadlineTimer is the single timer for the deadlines of all requests of a Requests. A timer for each request would
// cost two allocations and an entry in the timer heap of the runtime, although few requests reach their deadline.
//
// Invariant: while a request in flight has a deadline, the timer is set and fires no later than the first deadline. It
// may fire too early, which has no effect, because the end of a request does not reset it.
type deadlineTimer struct {
	timer *time.Timer // nil until needed
	at    time.Time   // when it fires; zero if it is not set
}

// schedule sets the timer for p. It must be called when p begins and when its deadline may have moved closer. mu must
// be held.
func (o *Requests) schedule(p *pending) {
	p.mu.Lock()
	deadline := p.deadline
	p.mu.Unlock()
	if !deadline.IsZero() && o.failed == nil {
		o.setTimer(deadline)
	}
}

// setTimer sets the timer for a deadline. mu must be held.
func (o *Requests) setTimer(deadline time.Time) {
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

// Release releases the timer of a Requests that has no requests in flight and will send no more. Otherwise the
// timer keeps the Requests and its Wire in memory until the last deadline.
func (o *Requests) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopTimer()
}

// stopTimer stops the timer. mu must be held.
func (o *Requests) stopTimer() {
	o.deadlines.at = time.Time{}
	if o.deadlines.timer != nil {
		o.deadlines.timer.Stop()
	}
}

// expire cancels the requests whose deadline has passed and sets the timer for the next one.
func (o *Requests) expire() {
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

// expire returns, once, the error of a request whose deadline has passed.
func (p *pending) expire(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deadline.IsZero() || now.Before(p.deadline) {
		return nil
	}
	p.deadline = time.Time{}
	return &call.TimeoutError{Method: p.req.Method, After: p.allowed}
}

// TimeoutPause stops the time-outs of requests, but not their maximum time-outs: while the peer waits for a response
// from this side, it cannot be expected to send its own. Resume ends the pause. It is safe for concurrent use.
type TimeoutPause struct {
	outbound *Requests

	// Guarded by outbound.mu.
	paused map[*pending]struct{}
	frozen bool
	idle   chan struct{} // see Freeze
}

// PauseTimeouts pauses the requests in flight, and those that begin before Freeze or Resume is called.
func (o *Requests) PauseTimeouts() *TimeoutPause {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &TimeoutPause{outbound: o, paused: make(map[*pending]struct{}, len(o.pending)), idle: make(chan struct{})}
	for _, p := range o.pending {
		t.add(p)
	}
	if o.pauses == nil {
		o.pauses = make(map[*TimeoutPause]struct{})
	}
	o.pauses[t] = struct{}{}
	return t
}

// add pauses a request. outbound.mu must be held, here and in remove.
func (t *TimeoutPause) add(p *pending) {
	if !t.frozen {
		t.paused[p] = struct{}{}
		p.pause()
	}
}

// remove forgets a request that has ended.
func (t *TimeoutPause) remove(p *pending) {
	delete(t.paused, p)
	t.closeIdle()
}

func (t *TimeoutPause) closeIdle() {
	if t.frozen && len(t.paused) == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Freeze stops t from affecting requests that begin later. The returned channel is closed when
// all paused requests have ended. Freeze must be called at most once.
func (t *TimeoutPause) Freeze() (idle <-chan struct{}) {
	t.outbound.mu.Lock()
	defer t.outbound.mu.Unlock()
	idle, t.frozen = t.idle, true
	t.closeIdle()
	return idle
}

// Resume restarts the time-outs of the paused requests. It may be called more than once.
func (t *TimeoutPause) Resume() {
	t.outbound.mu.Lock()
	defer t.outbound.mu.Unlock()
	delete(t.outbound.pauses, t)
	for p := range t.paused {
		p.resume()
		t.outbound.schedule(p)
	}
	clear(t.paused)
}

type pauseKey struct{}

// WithTimeoutPause returns a context for [PauseTimeouts], which calls pause.
func WithTimeoutPause(ctx context.Context, pause func() (resume func())) context.Context {
	return context.WithValue(ctx, pauseKey{}, pause)
}

// PauseTimeouts pauses the time-outs, but not the maximum time-outs, of the requests in flight
// on the connection that ctx belongs to, until resume is called. An authorizer uses it while a
// user logs in, because all requests wait for that. Without a connection in ctx, it has no
// effect.
func PauseTimeouts(ctx context.Context) (resume func()) {
	if pause, ok := ctx.Value(pauseKey{}).(func() (resume func())); ok && pause != nil {
		return pause()
	}
	return func() {}
}
