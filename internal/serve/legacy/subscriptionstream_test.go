package legacy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// notified returns the notifications of a queue after an update of each URI.
func notified(s *Sessions, queue *NotificationQueue, uris ...string) string {
	takeAll(queue)
	time.Sleep(time.Second)
	for _, uri := range uris {
		s.server.Changes.Publish(changes.Change{Kind: changes.ResourceUpdated, URI: uri})
	}
	return takeAll(queue)
}

// openStream opens the standalone stream of a session. The caller closes the queue.
func openStream(t *testing.T, s *Sessions, id string) (*StoredSession, *NotificationQueue) {
	t.Helper()
	l := mustOpen(t, s, principal.Anonymous, id)
	must.Do(t, l.MarkReady(t.Context()))
	l.subscriptions.activate(s.server.listFilter(principal.Anonymous))
	_, queue, err := l.Stream(t.Context(), "g")
	must.Do(t, err)
	return l, queue
}

// The replica with the stream delivers updates for subscriptions that it or another replica has
// stored, also if the session was evicted from its memory.
func TestStreamDeliversUpdatesForSubscriptionsOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, kv, id := bucketed(t, 20)
		defer kv.hook(nil, nil)
		l, queue := openStream(t, two, id)
		defer l.Release()
		want := func(i int, subscribed bool) {
			t.Helper()
			if got := notified(two, queue, longURI(i)); strings.Contains(got, longURI(i)) != subscribed {
				t.Errorf("URI %d: %.80q, want notification: %v", i, got, subscribed)
			}
		}
		ping := func(s *Sessions) { must.Do(t, use(t, s, id, func(*StoredSession) error { return nil })) }
		for i := range 21 {
			want(i, i < 20)
		}
		must.Do(t, subscribeTo(t, one, id, longURI(20)))
		must.Do(t, unsubscribeFrom(t, one, id, longURI(19)))
		must.Do(t, unsubscribeFrom(t, one, id, longURI(0)))
		ping(two) // a request reads the record
		want(20, true)
		want(19, false)
		want(0, false)
		must.Do(t, subscribeTo(t, two, id, longURI(21)))
		must.Do(t, unsubscribeFrom(t, two, id, longURI(18)))
		want(21, true)
		want(18, false)

		// The record of a change can be read before its bucket is written.
		kv.hook(func(op, key string) error {
			if op == "put" && strings.Contains(key, "/subscribed/") {
				kv.hook(nil, nil)
				ping(two)
				want(22, false)
			}
			return nil
		}, nil)
		must.Do(t, subscribeTo(t, one, id, longURI(22)))
		ping(two)
		want(22, true)
		// The bucket of such a change may be read by a change of this replica.
		kv.hook(func(op, key string) error {
			if op == "put" && strings.Contains(key, "/subscribed/") {
				kv.hook(nil, nil)
				ping(two)
			}
			return nil
		}, nil)
		must.Do(t, subscribeTo(t, one, id, longURI(23)))
		must.Do(t, subscribeTo(t, two, id, longURI(23)))
		want(23, true)

		queue.Close()
		if l.subscriptions.buckets != nil {
			t.Error("the URIs stay in memory without a stream")
		}
		if _, counted, actual := kv.contents(t, id); counted != actual {
			t.Errorf("%d bytes counted, %d stored", counted, actual)
		}
	})
}

func TestEvictedSessionKeepsItsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _, kv, id := bucketed(t, 10)
		one.mu.Lock()
		one.evict(one.cache.oldest)
		one.mu.Unlock()
		if _, _, actual := kv.contents(t, id); subscribed(t, one) != actual {
			t.Errorf("%d bytes count, %d are stored", subscribed(t, one), actual)
		}
		must.Do(t, unsubscribeFrom(t, one, id, longURI(9)))
		must.Do(t, subscribeTo(t, one, id, longURI(8))) // again
		one.mu.Lock()
		one.evict(one.cache.oldest)
		one.mu.Unlock()
		l, queue := openStream(t, one, id)
		defer l.Release()
		defer queue.Close()
		for i := range 10 {
			if got := notified(one, queue, longURI(i)); strings.Contains(got, longURI(i)) != (i < 9) {
				t.Errorf("URI %d: %.80q", i, got)
			}
		}
	})
}

// A request that cannot read the changes of another replica fails, and the next one reads them.
func TestChangesOfOtherReplicasAreReadAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, kv, id := bucketed(t, 3)
		l, queue := openStream(t, two, id)
		defer l.Release()
		defer queue.Close()
		must.Do(t, subscribeTo(t, one, id, longURI(3)))
		broken := errors.New("unreachable")
		kv.hook(func(op, key string) error {
			if strings.Contains(key, "/subscribed/") {
				return broken
			}
			return nil
		}, nil)
		for range 2 {
			must.CheckIs(t, use(t, two, id, func(*StoredSession) error { return nil }), broken)
		}
		kv.hook(nil, nil)
		must.Do(t, use(t, two, id, func(*StoredSession) error { return nil }))
		must.CheckContains(t, notified(two, queue, longURI(3)), longURI(3))
	})
}

// A stream that cannot read the subscriptions does not begin without them.
func TestStreamNeedsTheSubscriptions(t *testing.T) {
	one, _, kv, id := bucketed(t, 10)
	broken := errors.New("unreachable")
	l := mustOpen(t, one, principal.Anonymous, id)
	defer l.Release()
	kv.hook(func(string, string) error { return broken }, nil)
	if _, _, err := l.Stream(t.Context(), "g"); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	kv.hook(nil, nil)
	_, queue, err := l.Stream(t.Context(), "g")
	must.Do(t, err)
	queue.Close()
}

// Concurrent changes on two replicas all take effect.
func TestReplicasChangeSubscriptionsConcurrently(t *testing.T) {
	one, two, kv, id := bucketed(t, 5)
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			s := []*Sessions{one, two}[client%2]
			for i := range 40 {
				number := 100*(1+client) + i%10
				change := subscribeTo
				if i/10%2 == 1 {
					change = unsubscribeFrom
				}
				var err error
				for range 100 {
					if err = change(t, s, id, longURI(number)); !errors.Is(err, store.ErrConflict) {
						break
					}
				}
				must.Check(t, err)
			}
		})
	}
	clients.Wait()
	uris, counted, actual := kv.contents(t, id)
	if !slices.Equal(uris, longURIs(upTo(5)...)) || counted != actual {
		t.Errorf("%d URIs, %d bytes counted, %d stored", len(uris), counted, actual)
	}
}

// Two replicas change one bucket: the second one before or after any operation of the first.
func TestReplicasChangeOneBucketInAnyOrder(t *testing.T) {
	for _, subscribing := range []bool{true, false} {
		for inner := range 5 {
			for after := range 2 {
				for k, last := 0, false; !last; k++ {
					one, two, kv, id := bucketed(t, 3)
					free := kv.inBucketOf(t, id, longURI(2), 3) // and longURI(2) is in the bucket
					p, q, r, s := longURI(2), free[0], free[1], free[2]
					must.Do(t, subscribeTo(t, one, id, q))
					want := map[string]bool{longURI(0): true, longURI(1): true, p: true, q: true}
					change := func(replica *Sessions, uri string, subscribe bool) {
						t.Helper()
						if subscribe {
							must.Do(t, subscribeTo(t, replica, id, uri))
							want[uri] = true
						} else {
							must.Do(t, unsubscribeFrom(t, replica, id, uri))
							delete(want, uri)
						}
					}
					n := 0
					interrupt := func(string, string) error {
						if n++; n != k+1 {
							return nil
						}
						kv.hook(nil, nil)
						switch inner {
						case 0:
							change(two, s, true)
						case 1:
							change(two, q, false)
						case 2:
							change(two, r, true)
						case 3:
							change(two, p, false)
						case 4: // the record can have the same URI
							change(two, longURI(0), false)
							change(two, r, true)
						}
						return nil
					}
					if after == 1 {
						kv.hook(nil, interrupt)
					} else {
						kv.hook(interrupt, nil)
					}
					if subscribing {
						change(one, r, true)
					} else {
						change(one, p, false)
					}
					last = n <= k
					kv.hook(nil, nil)
					uris, counted, actual := kv.contents(t, id)
					if !slices.Equal(uris, slices.Sorted(maps.Keys(want))) || counted != actual {
						t.Errorf("subscribing %v, change %d, operation %d: %d URIs, want %d, %d bytes counted, %d "+
							"stored", subscribing,
							inner, k, len(uris), len(want), counted, actual)
					}
					for _, replica := range []*Sessions{one, two} {
						must.Do(t, use(t, replica, id, func(*StoredSession) error { return nil }))
						must.CheckEqual(t, bytesCounted(replica), actual, subscribing, inner, k)
					}
				}
			}
		}
	}
}

// inBucketOf returns n URIs of longURI, from 1,000 on, that have the bucket of the given URI.
func (s *hookedStore) inBucketOf(t *testing.T, id, uri string, n int) (uris []string) {
	t.Helper()
	item, err := s.KV.Get(t.Context(), sessionKey(principal.Anonymous, id))
	must.Do(t, err)
	state, err := DecodeState(item.Value)
	must.Do(t, err)
	for i := 1_000; len(uris) < n; i++ {
		if state.Index.bucketOf(longURI(i)) == state.Index.bucketOf(uri) {
			uris = append(uris, longURI(i))
		}
	}
	return uris
}

// The next change of a bucket repairs the record after a write to the bucket has failed.
func TestNextChangeOfABucketRepairsTheRecord(t *testing.T) {
	broken := errors.New("unreachable")
	for _, subscribing := range []bool{true, false} {
		one, _, kv, id := bucketed(t, 3)
		free := kv.inBucketOf(t, id, longURI(2), 2)
		kv.hook(func(op, key string) error {
			if op == "put" && strings.Contains(key, "/subscribed/") {
				return broken
			}
			return nil
		}, nil)
		must.Is(t, subscribeTo(t, one, id, free[0]), broken)
		kv.hook(nil, nil)
		if subscribing {
			must.Do(t, subscribeTo(t, one, id, free[1]))
		} else {
			must.Do(t, unsubscribeFrom(t, one, id, longURI(2)))
		}
		if _, counted, actual := kv.contents(t, id); counted != actual {
			t.Errorf("subscribing %v: %d bytes counted, %d stored", subscribing, counted, actual)
		}
	}
}

// If the store loses a bucket, the next change writes it again, and other replicas read it.
func TestLostBucketIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, kv, id := bucketed(t, 3)
		free := kv.inBucketOf(t, id, longURI(2), 3)
		must.Do(t, subscribeTo(t, one, id, free[0]))
		must.Do(t, subscribeTo(t, one, id, free[1]))
		l, queue := openStream(t, two, id)
		defer l.Release()
		defer queue.Close()
		for _, key := range kv.stored(t) {
			if strings.Contains(key, "/subscribed/") {
				must.Do(t, kv.Delete(t.Context(), key))
			}
		}
		must.Do(t, subscribeTo(t, one, id, free[2]))
		must.Do(t, use(t, two, id, func(*StoredSession) error { return nil }))
		must.CheckContains(t, notified(two, queue, free[2]), free[2])
		if _, counted, actual := kv.contents(t, id); counted != actual {
			t.Errorf("%d bytes counted, %d stored", counted, actual)
		}
	})
}

// A client cannot choose URIs that are all in one bucket.
func TestBucketsOfSessionsDiffer(t *testing.T) {
	var x, y bucketIndex
	same := 0
	for i := range 100 {
		x.set(bucket{number: x.bucketOf(longURI(i)), change: 1})
		y.set(bucket{number: y.bucketOf(longURI(i)), change: 1})
		if x.bucketOf(longURI(i)) == y.bucketOf(longURI(i)) {
			same++
		}
	}
	if same > 50 {
		t.Errorf("%d of 100 URIs have the same bucket in two sessions", same)
	}
}
