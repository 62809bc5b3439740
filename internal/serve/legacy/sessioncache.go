package legacy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxCached limits the unused sessions that stay in memory, about a kilobyte each. It is the default limit on sessions.
// The next request of such a session need not restore it. The cache evicts the least recently used session.
const maxCached = 10_000

// maxCachedRecord limits the record of a new session that stays in memory for MarkReady. Most have about 200 bytes, but
// clients can make them much longer.
const maxCachedRecord = 1 << 10

// sessionCache is the list of unused sessions in memory, the least recently used first.
type sessionCache struct {
	oldest, newest *StoredSession
	n              int
}

func (c *sessionCache) push(ss *StoredSession) {
	if ss.older = c.newest; c.newest != nil {
		c.newest.newer = ss
	} else {
		c.oldest = ss
	}
	c.newest = ss
	c.n++
}

func (c *sessionCache) remove(ss *StoredSession) {
	if ss.older != nil {
		ss.older.newer = ss.newer
	} else {
		c.oldest = ss.newer
	}
	if ss.newer != nil {
		ss.newer.older = ss.older
	} else {
		c.newest = ss.older
	}
	ss.older, ss.newer = nil, nil
	c.n--
}

// acquire begins one use of a session. The caller holds mu.
func (s *Sessions) acquire(ss *StoredSession) *StoredSession {
	if ss.refs == 0 && ss.cached {
		s.cache.remove(ss)
		ss.cached = false
	}
	if ss.refs == 0 { // a longer use is renewed, however often a notification begins another one
		ss.touchedAt = s.ticks
	}
	ss.refs++
	switch period := s.tickPeriod(); {
	case s.timer == nil:
		s.timer = time.AfterFunc(period, s.touchActive)
	case !s.armed:
		s.timer.Reset(period)
	}
	s.armed = true
	return ss
}

// Release ends one use of the session.
func (ss *StoredSession) Release() {
	s := ss.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss.refs--; ss.refs > 0 || ss.removed {
		return
	}
	s.uses++
	ss.used = s.uses
	ss.cached = true
	if ss.Ready || len(ss.record) > maxCachedRecord { // otherwise MarkReady needs it
		ss.record = nil
	}
	if s.cache.push(ss); s.cache.n > maxCached {
		s.evict(s.cache.oldest)
	}
}

// evict removes a session from memory: an unused one, or one that has ended. The caller holds mu.
func (s *Sessions) evict(ss *StoredSession) {
	if ss.cached {
		s.cache.remove(ss)
		ss.cached = false
	}
	delete(s.live, ss.sessionRef)
	delete(s.byKey, ss.key)
	ss.removed = true
}

// ticksPerTTL is the resolution at which the use of sessions is measured.
const ticksPerTTL = 6

func (s *Sessions) tickPeriod() time.Duration {
	return min(s.limits.Idle, s.limits.Uninitialized) / ticksPerTTL
}

// maxRenewals limits the concurrent store operations of touchActive.
const maxRenewals = 16

// touchActive renews the sessions that are in use, because a call may take longer than the idle limit. One timer serves
// all sessions and runs while any is in use. It restarts after the store has answered for all of them, or after
// storeTimeout. The next tick renews the sessions that were not renewed in time.
func (s *Sessions) touchActive() {
	var due []*StoredSession
	s.mu.Lock()
	s.ticks++
	s.armed = false
	for _, ss := range s.live {
		if ss.refs == 0 {
			continue
		}
		s.armed = true
		if time.Duration(s.ticks-ss.touchedAt)*s.tickPeriod() >= ss.ttl()/3 {
			due = append(due, ss)
		}
	}
	again, timer := s.armed, s.timer
	s.mu.Unlock()
	s.renew(due)
	if again {
		timer.Reset(s.tickPeriod())
	}
}

// renew renews sessions concurrently, all within one storeTimeout, because each operation of a
// store that is down takes that long.
func (s *Sessions) renew(due []*StoredSession) {
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_ = concurrently(ctx, maxRenewals, len(due), func(i int) error {
		_ = due[i].Touch(ctx) // if the session is gone, its next request fails
		return nil
	})
}

// concurrently calls f with 0 to n-1, in at most the given number of goroutines, until an error
// occurs or ctx ends. It returns an error of f, or the cause of ctx.
func concurrently(ctx context.Context, goroutines, n int, f func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, min(goroutines, n))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = context.Cause(ctx)
				if errs[w] == nil {
					errs[w] = f(i)
				}
				if errs[w] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
