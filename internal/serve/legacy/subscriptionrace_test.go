package legacy

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

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
				if err != nil {
					t.Error(err)
				}
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
					must(t, subscribeTo(t, one, id, q))
					want := map[string]bool{longURI(0): true, longURI(1): true, p: true, q: true}
					change := func(replica *Sessions, uri string, subscribe bool) {
						t.Helper()
						if subscribe {
							must(t, subscribeTo(t, replica, id, uri))
							want[uri] = true
						} else {
							must(t, unsubscribeFrom(t, replica, id, uri))
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
						t.Errorf("subscribing %v, change %d, operation %d: %d URIs, want %d, %d bytes counted, %d stored", subscribing, inner, k, len(uris), len(want), counted, actual)
					}
					for _, replica := range []*Sessions{one, two} {
						must(t, use(t, replica, id, func(*StoredSession) error { return nil }))
						if n := bytesCounted(replica); n != actual {
							t.Errorf("subscribing %v, change %d, operation %d: a replica counts %d bytes, want %d", subscribing, inner, k, n, actual)
						}
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
	must(t, err)
	state, err := DecodeState(item.Value)
	must(t, err)
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
		if err := subscribeTo(t, one, id, free[0]); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		kv.hook(nil, nil)
		if subscribing {
			must(t, subscribeTo(t, one, id, free[1]))
		} else {
			must(t, unsubscribeFrom(t, one, id, longURI(2)))
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
		must(t, subscribeTo(t, one, id, free[0]))
		must(t, subscribeTo(t, one, id, free[1]))
		l, queue := openStream(t, two, id)
		defer l.Release()
		defer queue.Close()
		for _, key := range kv.stored(t) {
			if strings.Contains(key, "/subscribed/") {
				must(t, kv.Delete(t.Context(), key))
			}
		}
		must(t, subscribeTo(t, one, id, free[2]))
		must(t, use(t, two, id, func(*StoredSession) error { return nil }))
		if got := notified(two, queue, free[2]); !strings.Contains(got, free[2]) {
			t.Errorf("%.80q", got)
		}
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
