package host

import "time"

// idleTimer returns a channel that receives when the server may have been idle for Idle; nil if it does not end.
func (s *supervisor) idleTimer() <-chan time.Time {
	if s.config.Idle <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.State.Usable() || s.client == nil {
		return nil
	}
	wait := s.config.Idle
	if s.calls == 0 {
		wait = max(time.Until(s.lastUsed().Add(s.config.Idle)), time.Millisecond)
	}
	return time.After(wait)
}

// lastUsed returns the end of the last call, or when the server became usable. It requires that mu is held.
func (s *supervisor) lastUsed() time.Time {
	if s.used.After(s.since) {
		return s.used
	}
	return s.since
}

// endIdle ends the connections to a server that is not used, until a call needs it again. Its lists stay known.
func (s *supervisor) endIdle() {
	if s.isWatched() {
		s.mu.Lock()
		s.used = time.Now()
		s.mu.Unlock()
		return
	}
	unused := s.current()
	ended := s.set(func(status *ServerStatus) bool {
		if s.calls > 0 || !status.State.Usable() || time.Since(s.lastUsed()) < s.config.Idle {
			return false
		}
		status.State, status.Err = NotStarted, nil
		s.client = nil
		return true
	})
	if !ended {
		return
	}
	s.logger.Info("server ended because it was idle", "idle", s.config.Idle)
	s.stopWatching()
	s.callers.endUnused()
	if err := unused.Close(); err != nil {
		s.logger.Warn("server that was idle has ended with an error", "error", err)
	}
	if s.isWatched() { // a subscription has begun meanwhile
		s.want()
	}
}

// isWatched reports whether the server has subscriptions.
func (s *supervisor) isWatched() bool {
	uris, _ := s.subscriptions.uris()
	return len(uris) > 0 || s.callerWatches.active()
}
