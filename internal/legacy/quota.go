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
	maxLookups   = 1_000       // sessions looked up at a time
	lookupPeriod = time.Second // at least this long between two times
)

// quota counts sessions by owner.
type quota struct {
	total int

	mu     sync.Mutex
	owner  map[string]string // session key to owner
	owners map[string]*owned
	looked time.Time // when sessions of all owners were last looked up
}

// owned is what one owner has.
type owned struct {
	sessions int
	looked   time.Time
}

// take counts one more session for owner, who may have most. gone tells whether a
// session has expired.
func (q *quota) take(owner, key string, most int, gone func(key string) bool) bool {
	ok, suspects := q.add(owner, key, most)
	if ok || len(suspects) == 0 {
		return ok
	}
	for _, k := range suspects {
		if gone(k) { // asks the store, so not under the lock
			q.give(k)
		}
	}
	ok, _ = q.add(owner, key, most)
	return ok
}

// add counts the session, or returns sessions that are in its way and may have
// expired.
func (q *quota) add(owner, key string, most int) (ok bool, suspects []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	has := q.owners[owner]
	switch {
	case has != nil && has.sessions >= most:
		return false, q.suspects(&has.looked, owner)
	case len(q.owner) >= q.total:
		return false, q.suspects(&q.looked, "")
	}
	if q.owner == nil {
		q.owner, q.owners = make(map[string]string), make(map[string]*owned)
	}
	if has == nil {
		has = new(owned)
		q.owners[owner] = has
	}
	has.sessions++
	q.owner[key] = owner
	return true, nil
}

// suspects returns sessions of one owner, or of any, unless it has done so lately.
// It is called with mu held.
func (q *quota) suspects(looked *time.Time, owner string) []string {
	now := time.Now()
	if now.Sub(*looked) < lookupPeriod {
		return nil
	}
	*looked = now
	var keys []string
	for key, of := range q.owner { // in an order that differs each time
		if owner == "" || of == owner {
			if keys = append(keys, key); len(keys) == maxLookups {
				break
			}
		}
	}
	return keys
}

// give takes a session off the count.
func (q *quota) give(key string) {
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
