package legacy

import (
	"sync"
	"time"
)

// The store forgets sessions without telling anybody, so the count is corrected
// when it stands in somebody's way: the sessions that do are looked up then. That
// costs as many round trips, which whoever begins sessions for sport must not be able
// to cause at will.
const (
	maxChecks   = 1_000       // sessions looked up at a time
	checkPeriod = time.Second // at least this long between two times
)

// quota counts sessions by owner.
type quota struct {
	total int

	mu      sync.Mutex
	owner   map[string]string // session key to owner
	owners  map[string]*ownerCount
	checked time.Time // when sessions of all owners were last looked up
}

// owned is what one owner has.
type ownerCount struct {
	sessions int
	checked  time.Time
}

// take counts one more session for owner, who may have most. gone tells whether a
// session has expired.
func (q *quota) add(owner, key string, most int, gone func(key string) bool) bool {
	ok, suspects := q.tryAdd(owner, key, most)
	if ok || len(suspects) == 0 {
		return ok
	}
	for _, k := range suspects {
		if gone(k) { // asks the store, so not under the lock
			q.remove(k)
		}
	}
	ok, _ = q.tryAdd(owner, key, most)
	return ok
}

// add counts the session, or returns sessions that are in its way and may have
// expired.
func (q *quota) tryAdd(owner, key string, most int) (ok bool, suspects []string) {
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

// suspects returns sessions of one owner, or of any, unless it has done so lately.
// It is called with mu held.
func (q *quota) candidates(looked *time.Time, owner string) []string {
	now := time.Now()
	if now.Sub(*looked) < checkPeriod {
		return nil
	}
	*looked = now
	var keys []string
	for key, of := range q.owner { // in an order that differs each time
		if owner == "" || of == owner {
			if keys = append(keys, key); len(keys) == maxChecks {
				break
			}
		}
	}
	return keys
}

// give takes a session off the count.
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
