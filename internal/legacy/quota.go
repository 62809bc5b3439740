package legacy

import (
	"sync"
	"time"
)

// The store does not report expired sessions. When a limit is reached, the quota checks
// which of the counted sessions still exist. A check costs one store operation per session,
// so their number and frequency are limited: clients must not be able to cause more.
const (
	maxChecks   = 1_000       // sessions per check
	checkPeriod = time.Second // minimum time between two checks
)

// quota counts sessions by owner.
type quota struct {
	total int

	mu      sync.Mutex
	owner   map[string]string // owner by session key
	owners  map[string]*ownerCount
	checked time.Time // when sessions of all owners were last checked
}

// ownerCount is the number of one owner's sessions.
type ownerCount struct {
	sessions int
	checked  time.Time
}

// add counts one more session of owner, up to the limit most. Expired reports whether a
// session has expired.
func (q *quota) add(owner, key string, most int, expired func(key string) bool) bool {
	ok, candidates := q.tryAdd(owner, key, most)
	if ok || len(candidates) == 0 {
		return ok
	}
	for _, k := range candidates {
		if expired(k) { // it queries the store, so do not hold the lock
			q.remove(k)
		}
	}
	ok, _ = q.tryAdd(owner, key, most)
	return ok
}

// tryAdd counts the session, or returns sessions to check because a limit is reached.
func (q *quota) tryAdd(owner, key string, most int) (ok bool, candidates []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	has := q.owners[owner]
	switch {
	case has != nil && has.sessions >= most:
		return false, q.candidates(&has.checked, owner)
	case len(q.owner) >= q.total:
		return false, q.candidates(&q.checked, "")
	}
	if q.owner == nil {
		q.owner, q.owners = make(map[string]string), make(map[string]*ownerCount)
	}
	if has == nil {
		has = new(ownerCount)
		q.owners[owner] = has
	}
	has.sessions++
	q.owner[key] = owner
	return true, nil
}

// candidates returns sessions of one owner, or of all owners if owner is empty, unless it
// has done so recently. The caller holds mu.
func (q *quota) candidates(checked *time.Time, owner string) []string {
	now := time.Now()
	if now.Sub(*checked) < checkPeriod {
		return nil
	}
	*checked = now
	var keys []string
	for key, of := range q.owner { // in random order
		if owner == "" || of == owner {
			if keys = append(keys, key); len(keys) == maxChecks {
				break
			}
		}
	}
	return keys
}

// remove subtracts a session.
func (q *quota) remove(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	owner, ok := q.owner[key]
	if !ok {
		return
	}
	delete(q.owner, key)
	has := q.owners[owner]
	if has.sessions--; has.sessions == 0 {
		delete(q.owners, owner)
	}
}
