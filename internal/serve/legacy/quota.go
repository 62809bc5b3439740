package legacy

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
)

// The store does not report expired sessions. When a limit is reached, the quota checks
// which of the counted sessions still exist. A check costs one store operation per session,
// so their number and frequency are limited: clients must not be able to cause more.
const (
	maxChecks   = 1_000       // sessions per check
	checkPeriod = time.Second // minimum time between two checks
)

// quota counts sessions that this process has created, and the bytes of the URIs to which
// sessions are subscribed, by owner.
type quota struct {
	total int
	bytes *changes.SubscribedBytes

	mu       sync.Mutex
	sessions map[string]countedSession // by session key
	created  int                       // sessions that this process has created
	owners   map[changes.Owner]*ownerCount
	checked  time.Time // when sessions of all owners were last checked
}

// countedSession is a session that this process has created, or one with subscriptions or buckets.
type countedSession struct {
	owner      changes.Owner
	subscribed int // bytes of URIs
	buckets    bucketSet
	order      uint32 // when it was created, see Sessions.uses
	created    bool   // by this process
	ended      bool   // its buckets are being deleted
}

// ownerCount is the number of one owner's sessions.
type ownerCount struct {
	created int // sessions that this process has created
	all     int // sessions in the quota
	checked time.Time
}

// add counts one more session of owner, up to the limit most. Expired reports whether a session has expired.
func (q *quota) add(owner changes.Owner, key string, order uint32, most int, expired func(key string) bool) bool {
	ok, candidates := q.tryAdd(owner, key, order, most)
	if ok || !q.removeExpired(candidates, expired) {
		return ok
	}
	ok, _ = q.tryAdd(owner, key, order, most)
	return ok
}

// createdBy returns the sessions of an owner that this process has created, and when.
func (q *quota) createdBy(owner changes.Owner) map[string]uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if has := q.owners[owner]; has == nil || has.created == 0 {
		return nil
	}
	all := make(map[string]uint32)
	for key, c := range q.sessions {
		if c.created && c.owner == owner {
			all[key] = c.order
		}
	}
	return all
}

// addSubscribed sets the bytes of the URIs of a session, and adds buckets that it has. The error
// is changes.ErrTooManySubscribed, and nothing changes then.
func (q *quota) addSubscribed(ctx context.Context, owner changes.Owner, key string, bytes int,
	buckets bucketSet) error {
	q.mu.Lock()
	added := bytes - q.sessions[key].subscribed
	q.mu.Unlock()
	if added <= 0 {
		q.setSubscribed(owner, key, bytes, buckets)
		return nil
	}
	if err := q.bytes.Add(ctx, owner, added); err != nil { // may call removeExpiredOf
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.sessions[key]
	c.owner, c.subscribed, c.buckets = owner, c.subscribed+added, c.buckets|buckets
	q.set(key, c)
	return nil
}

// swap counts the session key in place of another one. It reports false if that is no longer counted.
func (q *quota) swap(before, key string, order uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := q.sessions[before]
	if !old.created {
		return false
	}
	old.created = false
	q.set(before, old)
	now := q.sessions[key]
	now.owner, now.created, now.order = old.owner, true, order
	q.set(key, now)
	return true
}

// removeExpiredOf removes the expired sessions of an owner, unless it has done so recently.
func (q *quota) removeExpiredOf(owner changes.Owner, expired func(key string) bool) {
	q.mu.Lock()
	var candidates []string
	if has := q.owners[owner]; has != nil {
		candidates = q.candidates(&has.checked, &owner)
	}
	q.mu.Unlock()
	q.removeExpired(candidates, expired)
}

// removeExpired removes the expired sessions among candidates and reports whether there were
// candidates. It queries the store, so the caller must not hold mu.
func (q *quota) removeExpired(candidates []string, expired func(key string) bool) bool {
	for _, key := range candidates {
		if expired(key) {
			q.remove(key)
		}
	}
	return len(candidates) > 0
}

// tryAdd counts the session, or returns sessions to check because a limit is reached.
func (q *quota) tryAdd(owner changes.Owner, key string, order uint32, most int) (ok bool, candidates []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	has := q.owners[owner]
	switch {
	case has != nil && has.created >= most:
		return false, q.candidates(&has.checked, &owner)
	case q.created >= q.total:
		return false, q.candidates(&q.checked, nil)
	}
	q.set(key, countedSession{owner: owner, created: true, order: order})
	return true, nil
}

// setSubscribed sets the bytes of the URIs of a session as the store has them, also above the
// limit, and adds buckets that it has.
func (q *quota) setSubscribed(owner changes.Owner, key string, bytes int, buckets bucketSet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.sessions[key]
	if c.subscribed == bytes && c.buckets|buckets == c.buckets {
		return
	}
	q.bytes.Force(owner, bytes-c.subscribed)
	c.owner, c.subscribed, c.buckets = owner, bytes, c.buckets|buckets
	q.set(key, c)
}

// end records that a session has ended, and returns the buckets that it may have had.
func (q *quota) end(key string) bucketSet {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, ok := q.sessions[key]
	if ok {
		c.ended = true
		q.sessions[key] = c
	}
	return c.buckets
}

// ended reports whether a session with buckets has ended.
func (q *quota) ended(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, ok := q.sessions[key]
	return c.ended || !ok
}

// candidates returns sessions of one owner, or the sessions of all owners that this process has
// created if owner is nil, unless it has done so recently. The caller holds mu.
func (q *quota) candidates(checked *time.Time, owner *changes.Owner) []string {
	now := time.Now()
	if now.Sub(*checked) < checkPeriod {
		return nil
	}
	*checked = now
	var keys []string
	for key, c := range q.sessions { // in random order
		if owner == nil && c.created || owner != nil && c.owner == *owner {
			if keys = append(keys, key); len(keys) == maxChecks {
				break
			}
		}
	}
	return keys
}

// remove subtracts a session and its bytes.
func (q *quota) remove(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.sessions[key]; ok {
		q.bytes.Force(c.owner, -c.subscribed)
		q.set(key, countedSession{owner: c.owner})
	}
}

// set replaces the entry of a session, and removes it if it counts nothing. The caller holds mu, and changes q.bytes.
func (q *quota) set(key string, now countedSession) {
	if q.sessions == nil {
		q.sessions, q.owners = make(map[string]countedSession), make(map[changes.Owner]*ownerCount)
	}
	before, was := q.sessions[key]
	stays := now.created || now.subscribed > 0 || now.buckets != 0
	has := q.owners[now.owner]
	if has == nil {
		has = new(ownerCount)
		q.owners[now.owner] = has
	}
	has.all += count(stays) - count(was)
	has.created += count(now.created) - count(before.created)
	q.created += count(now.created) - count(before.created)
	if has.all == 0 {
		delete(q.owners, now.owner)
	}
	if stays {
		q.sessions[key] = now
	} else {
		delete(q.sessions, key)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
