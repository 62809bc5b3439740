package rpc

import "context"

// TimeoutPause stops the time-outs of requests, but not their maximum time-outs: while the peer
// waits for a response of this side, it cannot be expected to send its own. Resume ends the
// pause. It is safe for concurrent use.
type TimeoutPause struct {
	outbound *Outbound

	// Guarded by outbound.mu.
	paused map[*pending]struct{}
	frozen bool
	idle   chan struct{} // see Freeze
}

// PauseTimeouts pauses the requests in flight, and those that begin before Freeze or Resume is
// called.
func (o *Outbound) PauseTimeouts() *TimeoutPause {
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

// add pauses a request. It is called with outbound.mu held, and so is remove.
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
// user logs in, which all requests wait for. Without a connection in ctx it has no effect.
func PauseTimeouts(ctx context.Context) (resume func()) {
	if pause, ok := ctx.Value(pauseKey{}).(func() (resume func())); ok && pause != nil {
		return pause()
	}
	return func() {}
}
