package legacy

import (
	"context"
	"time"
)

// maxCached limits the unused sessions that stay in memory, about a kilobyte each. The next
// request of such a session need not restore it. The cache evicts the least recently used
// session.
const maxCached = 1024

// sessionCache is the list of unused sessions in memory, the least recently used first.
type sessionCache struct {
	oldest, newest *StoredSession
	n              int
}

func (w *sessionCache) push(l *StoredSession) {
	if l.older = w.newest; w.newest != nil {
		w.newest.newer = l
	} else {
		w.oldest = l
	}
	w.newest = l
	w.n++
}

func (w *sessionCache) remove(l *StoredSession) {
	if l.older != nil {
		l.older.newer = l.newer
	} else {
		w.oldest = l.newer
	}
	if l.newer != nil {
		l.newer.older = l.older
	} else {
		w.newest = l.older
	}
	l.older, l.newer = nil, nil
	w.n--
}

// acquire begins one use of a session. The caller holds mu.
func (s *Sessions) acquire(l *StoredSession) *StoredSession {
	if l.refs == 0 && l.cached {
		s.cache.remove(l)
		l.cached = false
	}
	l.refs++
	l.touchedAt = s.ticks
	switch period := s.tickPeriod(); {
	case s.timer == nil:
		s.timer = time.AfterFunc(period, s.touchActive)
	case !s.armed:
		s.timer.Reset(period)
	}
	s.armed = true
	return l
}

// Release ends one use of the session.
func (l *StoredSession) Release() {
	s := l.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.refs--; l.refs > 0 || s.live[l.key] != l {
		return
	}
	l.cached = true
	if s.cache.push(l); s.cache.n > maxCached {
		s.evict(s.cache.oldest)
	}
}

// evict removes an unused session from memory. The caller holds mu.
func (s *Sessions) evict(l *StoredSession) {
	s.cache.remove(l)
	l.cached = false
	delete(s.live, l.key)
}

// ticksPerTTL is the resolution at which the use of sessions is measured.
const ticksPerTTL = 6

func (s *Sessions) tickPeriod() time.Duration {
	return min(s.limits.Idle, s.limits.Uninitialized) / ticksPerTTL
}

// touchActive renews the sessions that are in use, because a call may take longer than the
// idle limit. One timer serves all sessions and runs while any is in use. It restarts after
// the store has answered for all of them.
func (s *Sessions) touchActive() {
	var due []*StoredSession
	s.mu.Lock()
	s.ticks++
	s.armed = false
	for _, l := range s.live {
		if l.refs == 0 {
			continue
		}
		s.armed = true
		if time.Duration(s.ticks-l.touchedAt)*s.tickPeriod() >= l.ttl()/3 {
			due = append(due, l)
		}
	}
	again, timer := s.armed, s.timer
	s.mu.Unlock()
	for _, l := range due {
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		_ = l.Touch(ctx) // if the session is gone, its next request fails
		cancel()
	}
	if again {
		timer.Reset(s.tickPeriod())
	}
}
