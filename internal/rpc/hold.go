package rpc

// TimeoutPause keeps the time-outs of requests from running, but not their absolute maxima:
// while the peer waits for an answer of ours, it cannot be expected to give its own.
// Release ends it. Safe for concurrent use.
type TimeoutPause struct {
	of *Outbound

	// Under the mutex of of.
	held   map[*pending]struct{}
	narrow bool
	idle   chan struct{} // see Narrow
}

// PauseTimeouts holds the requests in flight, and those that begin before it is narrowed or
// released.
func (o *Outbound) PauseTimeouts() *TimeoutPause {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := &TimeoutPause{of: o, held: make(map[*pending]struct{}, len(o.pending)), idle: make(chan struct{})}
	for _, p := range o.pending {
		h.take(p)
	}
	if o.holds == nil {
		o.holds = make(map[*TimeoutPause]struct{})
	}
	o.holds[h] = struct{}{}
	return h
}

// take holds one more request. Like leave, it is called with the mutex of of held.
func (h *TimeoutPause) take(p *pending) {
	if !h.narrow {
		h.held[p] = struct{}{}
		p.hold()
	}
}

// leave forgets a request that has ended.
func (h *TimeoutPause) leave(p *pending) {
	delete(h.held, p)
	h.settle()
}

func (h *TimeoutPause) settle() {
	if h.narrow && len(h.held) == 0 && h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
}

// Freeze has the hold be of the requests that it holds by now, and no later ones. The
// channel that it returns is closed when all of them have ended. It is called once.
func (h *TimeoutPause) Freeze() (idle <-chan struct{}) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	idle, h.narrow = h.idle, true
	h.settle()
	return idle
}

// Resume has the time-outs begin anew. It may be called more than once.
func (h *TimeoutPause) Resume() {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	delete(h.of.holds, h)
	for p := range h.held {
		p.release()
		h.of.watch(p)
	}
	clear(h.held)
}
