package legacy

import (
	"context"
	"time"
)

// maxWarm bounds the sessions that keep what they have in this process though nobody
// uses them right now, about a kilobyte each. The next request of such a session need
// not make that anew. Those that were used last stay.
const maxWarm = 1024

// warm is the sessions that nobody uses, the first the one for longest.
type warm struct {
	first, last *Live
	n           int
}

func (w *warm) add(l *Live) {
	if l.before = w.last; w.last != nil {
		w.last.after = l
	} else {
		w.first = l
	}
	w.last = l
	w.n++
}

func (w *warm) remove(l *Live) {
	if l.before != nil {
		l.before.after = l.after
	} else {
		w.first = l.after
	}
	if l.after != nil {
		l.after.before = l.before
	} else {
		w.last = l.before
	}
	l.before, l.after = nil, nil
	w.n--
}

// use begins one use of a session. It is called with mu held.
func (s *Sessions) use(l *Live) *Live {
	if l.refs == 0 && l.warm {
		s.warm.remove(l)
		l.warm = false
	}
	l.refs++
	l.touched = s.beats
	switch period := s.beatPeriod(); {
	case s.timer == nil:
		s.timer = time.AfterFunc(period, s.beat)
	case !s.armed:
		s.timer.Reset(period)
	}
	s.armed = true
	return l
}

// Release ends one use of the session.
func (l *Live) Release() {
	s := l.all
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.refs--; l.refs > 0 || s.live[l.key] != l {
		return
	}
	l.warm = true
	if s.warm.add(l); s.warm.n > maxWarm {
		s.drop(s.warm.first)
	}
}

// drop forgets what a session that nobody uses has here. It is called with mu held.
func (s *Sessions) drop(l *Live) {
	s.warm.remove(l)
	l.warm = false
	delete(s.live, l.key)
}

// beatsPerLife is how finely the lives of sessions that are in use are measured.
const beatsPerLife = 6

func (s *Sessions) beatPeriod() time.Duration {
	return min(s.limits.Idle, s.limits.Uninitialized) / beatsPerLife
}

// beat touches the sessions that have been in use for long: a call may take longer
// than a session may be idle. One timer does it for all, while any is in use. It goes on
// when the store has answered for all of them.
func (s *Sessions) beat() {
	var due []*Live
	s.mu.Lock()
	s.beats++
	s.armed = false
	for _, l := range s.live {
		if l.refs == 0 {
			continue
		}
		s.armed = true
		if time.Duration(s.beats-l.touched)*s.beatPeriod() >= l.ttl()/3 {
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
		timer.Reset(s.beatPeriod())
	}
}
