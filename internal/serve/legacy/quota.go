package legacy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/store"
)

// The store does not report expired sessions. When a limit is reached, the quota checks
// which of the counted sessions still exist. A check costs one store operation per session,
// so their number and frequency are limited: clients must not be able to cause more.
const (
	maxChecks   = 1_000       // sessions per check
	checkPeriod = time.Second // minimum time between two checks
)

// quota counts the sessions that this process has created, by owner. The limits are those of SessionLimits. If one is
// reached and no session has expired, [Sessions.Create] ends the owner's session that was idle longest, see displace.
type quota struct {
	total int

	mu       sync.Mutex
	sessions map[string]countedSession // by session key
	owners   map[changes.Owner]*ownerCount
	checked  time.Time // when sessions of all owners were last checked
}

type countedSession struct {
	owner changes.Owner
	order uint32 // when it was created, see Sessions.uses
}

// ownerCount is the number of one owner's sessions.
type ownerCount struct {
	sessions int
	checked  time.Time
}

// add counts one more session of owner, up to the limit most. Expired reports whether a session has expired. It queries
// the store, so add calls it without mu.
func (q *quota) add(owner changes.Owner, key string, order uint32, most int, expired func(key string) bool) bool {
	ok, candidates := q.tryAdd(owner, key, order, most)
	if ok || len(candidates) == 0 {
		return ok
	}
	for _, key := range candidates {
		if expired(key) {
			q.remove(key)
		}
	}
	ok, _ = q.tryAdd(owner, key, order, most)
	return ok
}

// tryAdd counts the session, or returns sessions to check because a limit is reached.
func (q *quota) tryAdd(owner changes.Owner, key string, order uint32, most int) (ok bool, candidates []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	has := q.owners[owner]
	switch {
	case has != nil && has.sessions >= most:
		return false, q.candidates(&has.checked, &owner)
	case len(q.sessions) >= q.total:
		return false, q.candidates(&q.checked, nil)
	}
	if q.sessions == nil {
		q.sessions, q.owners = make(map[string]countedSession), make(map[changes.Owner]*ownerCount)
	}
	if has == nil {
		has = new(ownerCount)
		q.owners[owner] = has
	}
	has.sessions++
	q.sessions[key] = countedSession{owner, order}
	return true, nil
}

// candidates returns sessions of one owner, or of all owners if owner is nil, unless it has done so recently. The
// caller holds mu.
func (q *quota) candidates(checked *time.Time, owner *changes.Owner) []string {
	now := time.Now()
	if now.Sub(*checked) < checkPeriod {
		return nil
	}
	*checked = now
	var keys []string
	for key, c := range q.sessions { // in random order
		if owner == nil || c.owner == *owner {
			if keys = append(keys, key); len(keys) == maxChecks {
				break
			}
		}
	}
	return keys
}

// createdBy returns the sessions of an owner, and when they were created.
func (q *quota) createdBy(owner changes.Owner) map[string]uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owners[owner] == nil {
		return nil
	}
	all := make(map[string]uint32)
	for key, c := range q.sessions {
		if c.owner == owner {
			all[key] = c.order
		}
	}
	return all
}

// swap counts the session key in place of another one. It reports false if that is no longer counted.
func (q *quota) swap(before, key string, order uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	old, ok := q.sessions[before]
	if !ok {
		return false
	}
	delete(q.sessions, before)
	q.sessions[key] = countedSession{old.owner, order}
	return true
}

// remove subtracts a session, if it is counted.
func (q *quota) remove(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, ok := q.sessions[key]
	if !ok {
		return
	}
	delete(q.sessions, key)
	if has := q.owners[c.owner]; has.sessions > 1 {
		has.sessions--
	} else {
		delete(q.owners, c.owner)
	}
}

// maxDisplaced limits the sessions that displace looks up in the store.
const maxDisplaced = 4

// displace ends the session of an owner that has been idle longest, and counts the session key in its place: many
// clients begin sessions and never delete them. The client of the session gets ErrNoSession at its next request, and
// begins again (2025-11-25, basic/transports, Session Management). It reports false if each session has a request in
// flight or a stream that can be resumed.
func (s *Sessions) displace(ctx context.Context, owner changes.Owner, key string, order uint32) bool {
	for lookups := 0; ; {
		victim, oldest := s.idlest(owner, lookups)
		if victim == "" {
			return false
		}
		if s.Replicas != nil && s.isListening(ctx, victim) {
			if lookups++; lookups == maxDisplaced {
				return false
			}
			continue
		}
		if !s.quota.swap(victim, key, order) {
			continue // another new session has displaced it
		}
		// Other replicas are not told, so that a request which is in flight there ends as usual.
		if err := s.store.Delete(ctx, victim); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.quota.swap(key, victim, oldest)
			return false
		}
		s.displaced.Log(ctx, s.server.Logger, slog.LevelInfo, "ended a session: its owner has too many sessions, "+
			"and this one was idle for the longest time")
		s.mu.Lock()
		ss := s.byKey[victim]
		if ss != nil && ss.refs == 0 {
			s.evict(ss)
		} else {
			ss = nil // used again
		}
		s.mu.Unlock()
		if ss != nil {
			ss.Close()
		}
		return true
	}
}

// idlest returns the session of an owner that has been idle longest, after as many others as skip says, and its place
// in the order of sessions. It returns "" if there is none that this process has created and does not use.
func (s *Sessions) idlest(owner changes.Owner, skip int) (key string, order uint32) {
	idle := s.quota.createdBy(owner)
	s.mu.Lock()
	for key := range idle {
		if ss := s.byKey[key]; ss != nil && ss.refs > 0 {
			delete(idle, key)
		} else if ss != nil {
			idle[key] = ss.used // later than it was created
		}
	}
	now := s.uses
	s.mu.Unlock()
	if len(idle) <= skip {
		return "", 0
	}
	oldest := slices.SortedFunc(maps.Keys(idle), func(a, b string) int { return cmp.Compare(now-idle[b], now-idle[a]) })
	return oldest[skip], idle[oldest[skip]]
}

// isListening reports whether another replica may have the standalone stream of a session.
func (s *Sessions) isListening(ctx context.Context, key string) bool {
	item, err := s.store.Get(ctx, key)
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	state, err := DecodeState(item.Value)
	return err == nil && state.Stream != ""
}

// expired returns a function that reports whether the store no longer has a session.
func (s *Sessions) expired(ctx context.Context) func(key string) bool {
	return func(key string) bool {
		_, err := s.store.Get(ctx, key)
		return errors.Is(err, store.ErrNotFound)
	}
}
