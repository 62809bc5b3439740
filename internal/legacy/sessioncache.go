package legacy

import (
	"context"
	"time"
)

// maxWarm bounds the sessions that keep what they have in this process though nobody
// uses them right now, about a kilobyte each. The next request of such a session need
// not make that anew. Those that were used last stay.
const maxCached = 1024

// warm is the sessions that nobody uses, the first the one for longest.
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

// use begins one use of a session. It is called with mu held.
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

// drop forgets what a session that nobody uses has here. It is called with mu held.
func (s *Sessions) evict(l *StoredSession) {
	s.cache.remove(l)
	l.cached = false
	delete(s.live, l.key)
}

// beatsPerLife is how finely the lives of sessions that are in use are measured.
const ticksPerTTL = 6

func (s *Sessions) tickPeriod() time.Duration {
	return min(s.limits.Idle, s.limits.Uninitialized) / ticksPerTTL
}

// beat touches the sessions that have been in use for long: a call may take longer
// than a session may be idle. One timer does it for all, while any is in use. It goes on
// when the store has answered for all of them.
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
		_ = l.Touch(ctx) // if it is gone, the next request finds out
		cancel()
	}
	if again {
		timer.Reset(s.tickPeriod())
	}
}
