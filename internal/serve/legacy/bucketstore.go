package legacy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/parley-mcp/parley/store"
)

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

// writeBucket writes a bucket over the version that readBucket has returned. The error is
// ErrNoSession, or the store's.
func (ss *StoredSession) writeBucket(ctx context.Context, b *bucket) error {
	s, key := ss.sessions, bucketKey(ss.key, b.number)
	_, err := s.store.Put(ctx, key, b.encode(), store.PutOptions{TTL: s.bucketLife(), IfVersion: b.version, IfAbsent: b.version == 0})
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

// readBuckets returns the buckets of the session and, as bucket inline, the URIs of the record. It
// reads a bucket from the store only if that in have is not current. It reports whether another
// replica is writing a bucket.
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
	return concurrently(ctx, maxBucketOperations, len(all), func(i int) error { return s.store.Delete(ctx, bucketKey(key, all[i])) })
}
