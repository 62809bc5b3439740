package legacy

import (
	"maps"
	"slices"
	"sync"
)

// quota counts sessions by owner. The store forgets sessions without telling
// anybody, so the count is corrected when it stands in somebody's way: only then
// are the owner's sessions looked up.
type quota struct {
	total int

	mu     sync.Mutex
	owners map[string]map[string]struct{} // owner to session keys
	owner  map[string]string              // session key to owner
}

// take counts one more session for owner, who may have most. gone tells whether a
// session has expired.
func (q *quota) take(owner, key string, most int, gone func(key string) bool) bool {
	inTheWay := q.add(owner, key, most)
	if inTheWay == nil {
		return true
	}
	for _, k := range inTheWay {
		if gone(k) { // asks the store, so not under the lock
			q.give(k)
		}
	}
	return q.add(owner, key, most) == nil
}

// add counts the session, or returns the sessions that are in its way.
func (q *quota) add(owner, key string, most int) (inTheWay []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.owners[owner]) >= most:
		return slices.Collect(maps.Keys(q.owners[owner]))
	case len(q.owner) >= q.total:
		return slices.Collect(maps.Keys(q.owner))
	}
	if q.owners == nil {
		q.owners, q.owner = make(map[string]map[string]struct{}), make(map[string]string)
	}
	if q.owners[owner] == nil {
		q.owners[owner] = make(map[string]struct{})
	}
	q.owners[owner][key] = struct{}{}
	q.owner[key] = owner
	return nil
}

// give takes a session off the count.
func (q *quota) give(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	owner := q.owner[key]
	delete(q.owner, key)
	delete(q.owners[owner], key)
	if len(q.owners[owner]) == 0 {
		delete(q.owners, owner)
	}
}
