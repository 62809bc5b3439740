package legacy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/store"
)

// subscribe adds a URI to a stored session. It returns the changed bucket, or nil if the session
// has the URI already.
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
