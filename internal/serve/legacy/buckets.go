package legacy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// Every request reads the record of its session, which must therefore be short. The record
// contains at most maxInline bytes of the URIs of subscriptions. Each other URI is in a bucket: a
// value of the store with its own key, which a digest of the URI selects. The record contains the
// index of the buckets. A change reads and writes the record and at most one bucket.
//
// The record never counts fewer bytes than the buckets contain: Subscribe writes the record before the bucket, and
// Unsubscribe writes the bucket before the record. Each change of a bucket has a number, which is in the bucket and in
// the index, so that other replicas know which buckets to read again. If the second write fails, the numbers differ
// until the next change of the bucket, which also corrects the record.
const (
	maxInline  = 2 << 10 // bytes
	maxBuckets = 64
)

// bucketIndex describes the buckets of a session.
type bucketIndex struct {
	// Seed is random, so that a client cannot choose URIs that are all in one bucket.
	Seed    string       `json:"seed"`
	Renewed int64        `json:"renewed"` // when the life of all buckets was renewed, in Unix seconds
	Buckets []bucketInfo `json:"buckets"` // each bucket once, in no order
}

// bucketInfo describes a bucket. It is an array because that is its stored form.
type bucketInfo [4]int

// Indices of bucketInfo.
const (
	bucketNumber = iota // below maxBuckets
	bucketChange        // the number of the last change
	bucketURIs          // how many
	bucketBytes         // of the URIs
)

// bucket is one bucket in memory, or the URIs of the record.
type bucket struct {
	number  int
	change  int // the number of the last change
	uris    []string
	version uint64 // of the value in the store; 0 if the store does not have the bucket
}

// inline is the number of the record in place of a bucket.
const inline = -1

// indexOf returns the index of the bucket with a number, or -1.
func indexOf(all []bucket, number int) int {
	return slices.IndexFunc(all, func(b bucket) bool { return b.number == number })
}

// bucketOf returns the number of the bucket of a URI. It initializes an index without buckets.
func (x *bucketIndex) bucketOf(uri string) int {
	if len(x.Buckets) == 0 {
		x.Seed, x.Renewed = rand.Text(), time.Now().Unix()
	}
	sum := sha256.Sum256([]byte(x.Seed + uri))
	return int(sum[0]) % maxBuckets
}

// find returns the description of a bucket, or nil if the session does not have it.
func (x *bucketIndex) find(number int) *bucketInfo {
	for i := range x.Buckets {
		if x.Buckets[i][bucketNumber] == number {
			return &x.Buckets[i]
		}
	}
	return nil
}

// lastChange returns the number of the last change of a bucket, or 0.
func (x *bucketIndex) lastChange(number int) int {
	if info := x.find(number); info != nil {
		return info[bucketChange]
	}
	return 0
}

// set records the content of a bucket.
func (x *bucketIndex) set(b bucket) {
	info := x.find(b.number)
	if info == nil {
		x.Buckets = append(x.Buckets, bucketInfo{})
		info = &x.Buckets[len(x.Buckets)-1]
	}
	*info = bucketInfo{b.number, b.change, len(b.uris), bytesOf(b.uris)}
}

// numbers returns the buckets that the session has.
func (x *bucketIndex) numbers() (set bucketSet) {
	for _, b := range x.Buckets {
		set |= 1 << b[bucketNumber]
	}
	return set
}

// bucketSet is a set of buckets: bit i is bucket i.
type bucketSet uint64

// list returns the buckets of the set.
func (s bucketSet) list() (all []int) {
	for i := range maxBuckets {
		if s&(1<<i) != 0 {
			all = append(all, i)
		}
	}
	return all
}

// bytesOf returns the length of all URIs.
func bytesOf(uris []string) (n int) {
	for _, uri := range uris {
		n += len(uri)
	}
	return n
}

// subscribed returns the number of all URIs of a session and their bytes.
func (s *State) subscribed() (n, bytes int) {
	n, bytes = len(s.Subscribed), bytesOf(s.Subscribed)
	for _, b := range s.Index.Buckets {
		n, bytes = n+b[bucketURIs], bytes+b[bucketBytes]
	}
	return n, bytes
}

// subscribedSize returns the bytes that the URIs of a session count.
func (s *State) subscribedSize() int {
	n, bytes := s.subscribed()
	return changes.SubscribedSizeOf(n, bytes)
}

// bucketKey returns the key of a bucket in the store.
func bucketKey(sessionKey string, number int) string {
	return sessionKey + "/subscribed/" + strconv.Itoa(number)
}

// encode returns the bucket as JSON.
func (b *bucket) encode() []byte {
	raw := make([]byte, 0, 64+len(b.uris)*4+bytesOf(b.uris))
	raw = fmt.Appendf(raw, `{"change":%d,"uris":`, b.change)
	return append(appendStrings(raw, b.uris), '}')
}

// decodeBucket decodes the result of encode.
func decodeBucket(raw []byte) (bucket, error) {
	var stored struct {
		Change int      `json:"change"`
		URIs   []string `json:"uris"`
	}
	if err := jsonv2.Unmarshal(raw, &stored); err != nil || stored.Change <= 0 {
		return bucket{}, errBadState
	}
	return bucket{change: stored.Change, uris: stored.URIs}, nil
}

// append appends the index as JSON.
func (x *bucketIndex) append(dst []byte) []byte {
	dst = jsonrpc.AppendString(append(dst, `{"seed":`...), x.Seed)
	dst = fmt.Appendf(dst, `,"renewed":%d,"buckets":[`, x.Renewed)
	for i, b := range x.Buckets {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, "[%d,%d,%d,%d]", b[0], b[1], b[2], b[3])
	}
	return append(dst, `]}`...)
}

// decodeBucketIndex decodes the result of append.
func decodeBucketIndex(raw []byte) (x bucketIndex, err error) {
	if err := jsonv2.Unmarshal(raw, &x); err != nil {
		return bucketIndex{}, errBadState
	}
	for _, b := range x.Buckets {
		if b[bucketNumber] < 0 || b[bucketNumber] >= maxBuckets || b[bucketChange] <= 0 || b[bucketURIs] < 0 ||
			b[bucketBytes] < 0 {
			return bucketIndex{}, errBadState
		}
	}
	return x, nil
}

// appendStrings appends the strings as a JSON array.
func appendStrings(dst []byte, all []string) []byte {
	dst = append(dst, '[')
	for i, s := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonrpc.AppendString(dst, s)
	}
	return append(dst, ']')
}

// maxBucketOperations limits the concurrent store operations for the buckets of one session.
const maxBucketOperations = 8

// readBucket returns a bucket. It is empty if the store does not have it, which is the
// state after a write to a new bucket has failed.
func (ss *StoredSession) readBucket(ctx context.Context, number int) (bucket, error) {
	item, err := ss.sessions.store.Get(ctx, bucketKey(ss.key, number))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return bucket{number: number}, nil
	case err != nil:
		return bucket{}, fmt.Errorf("cannot read subscriptions: %w", err)
	}
	b, err := decodeBucket(item.Value)
	b.number, b.version = number, item.Version
	return b, err
}

// writeBucket writes a bucket over the version that readBucket has returned. The error is ErrNoSession, or the store's.
func (ss *StoredSession) writeBucket(ctx context.Context, b *bucket) error {
	s, key := ss.sessions, bucketKey(ss.key, b.number)
	_, err := s.store.Put(ctx, key, b.encode(),
		store.PutOptions{TTL: s.bucketLife(), IfVersion: b.version, IfAbsent: b.version == 0})
	if err != nil {
		return fmt.Errorf("cannot write subscriptions: %w", err)
	}
	if b.version == 0 && s.quota.ended(ss.key) { // deleteBuckets may have been too early
		_ = s.store.Delete(ctx, key)
		return ErrNoSession
	}
	return nil
}

// bucketLife returns the life of buckets. It is three times the life of an unused session, so that
// a bucket outlives its session even if one of the renewals of renewBuckets fails.
func (s *Sessions) bucketLife() time.Duration {
	return 3 * min(max(s.limits.Idle, s.limits.Uninitialized), math.MaxInt64/3)
}

// renewBuckets renews the life of all buckets when the session is used, at most once in half the
// life of an unused session.
func (ss *StoredSession) renewBuckets(ctx context.Context) error {
	s := ss.sessions
	s.mu.Lock()
	renewed := ss.renewed
	s.mu.Unlock()
	if renewed == 0 {
		return nil
	}
	now := time.Now()
	// The age is negative if the clock of another replica is ahead.
	if age := now.Sub(time.Unix(renewed, 0)); age >= 0 && age < max(s.limits.Idle, s.limits.Uninitialized)/2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	state, err := ss.state(ctx)
	if err != nil {
		return err
	}
	all := state.Index.numbers().list()
	err = concurrently(ctx, maxBucketOperations, len(all), func(i int) error {
		_, err := s.store.Touch(ctx, bucketKey(ss.key, all[i]), s.bucketLife())
		if errors.Is(err, store.ErrNotFound) { // see readBucket
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot renew subscriptions: %w", err)
	}
	return ss.update(ctx, func(state *State) error { state.Index.Renewed = now.Unix(); return nil })
}

// readBuckets returns the buckets of the session and, as bucket inline, the URIs of the record. It reads a bucket from
// the store only if that in have is not current. It reports whether another replica is writing a bucket.
func (ss *StoredSession) readBuckets(ctx context.Context, have []bucket) (all []bucket, behind bool, _ error) {
	state, err := ss.state(ctx)
	if err != nil {
		return nil, false, err
	}
	all = []bucket{{number: inline, uris: state.Subscribed}}
	var mu sync.Mutex
	err = concurrently(ctx, maxBucketOperations, len(state.Index.Buckets), func(i int) (err error) {
		info := state.Index.Buckets[i]
		var b bucket
		if at := indexOf(have, info[bucketNumber]); at >= 0 && have[at].change >= info[bucketChange] {
			b = have[at]
		} else if b, err = ss.readBucket(ctx, info[bucketNumber]); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, b)
		behind = behind || b.change < info[bucketChange]
		return nil
	})
	return all, behind, err
}

// state returns the state of the session. The error is ErrNoSession or the store's.
func (ss *StoredSession) state(ctx context.Context) (State, error) {
	item, err := ss.read(ctx, true)
	if err != nil {
		return State{}, err
	}
	return DecodeState(item.Value)
}

// forget stops counting a session that has ended, and deletes its buckets. If that fails, the
// session counts until the quota checks it.
func (s *Sessions) forget(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if s.deleteBuckets(ctx, key) == nil {
		s.quota.remove(key)
	}
}

// deleteBuckets deletes the buckets of a session that has ended.
func (s *Sessions) deleteBuckets(ctx context.Context, key string) error {
	all := s.quota.end(key).list()
	return concurrently(ctx, maxBucketOperations, len(all),
		func(i int) error { return s.store.Delete(ctx, bucketKey(key, all[i])) })
}

// subscribe adds a URI to a stored session. It returns the changed bucket, or nil if the session has the URI already.
func (ss *StoredSession) subscribe(ctx context.Context, uri string) (changed *bucket, err error) {
	for range maxUpdates {
		err := ss.updateSubscribed(ctx, func(state *State) error {
			if changed = nil; slices.Contains(state.Subscribed, uri) {
				return errUnchanged
			}
			b, last, err := ss.bucketFor(ctx, &state.Index, uri)
			switch {
			case err != nil:
				return err
			case slices.Contains(b.uris, uri):
				return errUnchanged
			// If the bucket differs from the index, another replica may be adding the same URI to the
			// bucket. Only one of the two can write the bucket.
			case b.change == last && bytesOf(state.Subscribed)+len(uri) <= maxInline:
				state.Subscribed = append(state.Subscribed, uri)
				changed = &bucket{number: inline, uris: state.Subscribed}
			default:
				b.number, b.uris, b.change = state.Index.bucketOf(uri), append(b.uris, uri), max(b.change, last)+1
				state.Index.set(b)
				changed = &b
			}
			n, bytes := state.subscribed()
			return changes.CheckSubscription(uri, n, bytes)
		})
		if err != nil || changed == nil || changed.number == inline {
			return changed, err
		}
		if err = ss.writeBucket(ctx, changed); !errors.Is(err, store.ErrConflict) {
			return changed, err
		}
	}
	return nil, fmt.Errorf("cannot write subscriptions: %w", store.ErrConflict)
}

// unsubscribe removes a URI from a stored session. It returns the changed bucket, or nil if the
// session does not have the URI.
func (ss *StoredSession) unsubscribe(ctx context.Context, uri string) (changed *bucket, err error) {
	err = ss.updateSubscribed(ctx, func(state *State) error {
		changed = nil
		if at := slices.Index(state.Subscribed, uri); at >= 0 {
			state.Subscribed = slices.Delete(state.Subscribed, at, at+1)
			changed = &bucket{number: inline, uris: state.Subscribed}
			return nil
		}
		b, last, err := ss.bucketFor(ctx, &state.Index, uri)
		if err != nil {
			return err
		}
		if at := slices.Index(b.uris, uri); at >= 0 {
			b.uris, b.change = slices.Delete(b.uris, at, at+1), max(b.change, last)+1
			if err := ss.writeBucket(ctx, &b); err != nil {
				return err // if it is a conflict, updateSubscribed tries again
			}
		}
		if b.change <= last {
			return errUnchanged
		}
		state.Index.set(b)
		changed = &b
		return nil
	})
	return changed, err
}

// bucketFor returns the bucket of a URI, and the number of its last change according to the index.
// Both are zero if the session has no buckets.
func (ss *StoredSession) bucketFor(ctx context.Context, x *bucketIndex, uri string) (b bucket, last int, err error) {
	if len(x.Buckets) == 0 {
		return bucket{}, 0, nil
	}
	b.number = x.bucketOf(uri)
	if last = x.lastChange(b.number); last > 0 {
		b, err = ss.readBucket(ctx, b.number)
	}
	return b, last, err
}

// updateSubscribed changes the record of a session and counts the bytes of its URIs.
func (ss *StoredSession) updateSubscribed(ctx context.Context, change func(*State) error) error {
	owner, quota := ss.subscriptions.owner(), &ss.sessions.quota
	before := -1
	err := ss.update(ctx, func(state *State) error {
		size := state.subscribedSize()
		if err := change(state); err != nil {
			return err
		}
		before = size
		return quota.addSubscribed(ctx, owner, ss.key, state.subscribedSize(), state.Index.numbers())
	})
	if err != nil && before >= 0 {
		quota.setSubscribed(owner, ss.key, before, 0)
	}
	return err
}
