package legacy

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/principal"
)

// While the store fails at any operation of Delete, the bytes that are still stored count, until
// the quota checks the session again.
func TestBucketsOfDeletedSessionCountUntilTheyAreDeleted(t *testing.T) {
	broken := errors.New("unreachable")
	for failing, done := 0, false; !done; failing++ {
		synctest.Test(t, func(t *testing.T) {
			one, _, kv, id := bucketed(t, 6)
			var mu sync.Mutex
			n := 0
			kv.hook(func(string, string) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n == failing+1 {
					return broken
				}
				return nil
			}, nil)
			err := one.Delete(t.Context(), principal.Anonymous, id)
			kv.hook(nil, nil)
			if done = n <= failing; done { // Delete has fewer operations
				must(t, err)
			}
			if err != nil { // the client tries again
				must(t, one.Delete(t.Context(), principal.Anonymous, id))
			}
			if left := kv.stored(t); len(left) > 0 && bytesCounted(one) == 0 {
				t.Errorf("operation %d fails: the store has %q, and nothing counts", failing, left)
			}
			time.Sleep(time.Minute)
			// A client that reaches the limit causes the check.
			owner := changes.OwnerOf(principal.Anonymous, "a")
			_ = one.server.Changes.Bytes().Add(t.Context(), owner, changes.MaxOwnerSubscribed+1)
			if left := kv.stored(t); len(left) > 0 || subscribed(t, one) != 0 {
				t.Errorf("operation %d fails: %d bytes count, and the store has %q", failing, subscribed(t, one), left)
			}
		})
	}
}

// A session that ends while one of its buckets is written leaves nothing in the store.
func TestSessionThatEndsDuringAChangeLeavesNothing(t *testing.T) {
	for _, hook := range []string{"before", "after"} {
		for _, op := range []string{"get", "put"} {
			for _, replica := range []int{0, 1} {
				one, two, kv, id := bucketed(t, 3)
				ender := []*Sessions{one, two}[replica]
				end := func(name, key string) error {
					if name == op && strings.Contains(key, "/subscribed/") || op == "get" && name == "put" {
						kv.hook(nil, nil)
						must(t, ender.Delete(t.Context(), principal.Anonymous, id))
					}
					return nil
				}
				if hook == "before" {
					kv.hook(end, nil)
				} else {
					kv.hook(nil, end)
				}
				_ = subscribeTo(t, one, id, longURI(3))
				// The other replica counts what it has written until it learns of the end.
				if left := kv.stored(t); len(left) > 0 && bytesCounted(one) == 0 {
					t.Errorf("%s %s, replica %d: the store has %q, and nothing counts", hook, op, replica, left)
				}
				for _, s := range []*Sessions{one, two} {
					if err := subscribeTo(t, s, id, longURI(4)); !errors.Is(err, ErrNoSession) {
						t.Errorf("%v", err)
					}
				}
				if left := kv.stored(t); len(left) > 0 || subscribed(t, one) != 0 || subscribed(t, two) != 0 {
					t.Errorf("%s %s, replica %d: %d and %d bytes count, and the store has %q", hook, op, replica, subscribed(t, one), subscribed(t, two), left)
				}
			}
		}
	}
}

// The buckets live as long as their session, and their life is renewed rarely.
func TestBucketsLiveAsLongAsTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, kv, id := bucketed(t, 10)
		must(t, use(t, one, id, func(l *StoredSession) error { return l.MarkReady(t.Context()) }))
		renewals, requests := 0, 0
		kv.hook(nil, func(op, key string) error {
			if op == "touch" && strings.Contains(key, "/subscribed/") {
				kv.mu.Lock()
				renewals++
				kv.mu.Unlock()
			}
			return nil
		})
		const day = 24 * time.Hour
		for begin := time.Now(); time.Since(begin) < day; requests++ {
			must(t, use(t, []*Sessions{one, two}[requests%2], id, func(*StoredSession) error { return nil }))
			time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Minute))))
		}
		n := len(kv.stored(t)) - 1
		if most := int(day/(15*time.Minute)) * n; n < 5 || renewals == 0 || renewals > most {
			t.Errorf("%d requests have renewed %d buckets %d times, want at most %d", requests, n, renewals, most)
		}
		// A call that takes a day is use.
		must(t, use(t, one, id, func(*StoredSession) error { time.Sleep(day); return nil }))
		uris, counted, actual := kv.contents(t, id)
		if !slices.Equal(uris, longURIs(upTo(10)...)) || counted != actual {
			t.Errorf("%d URIs, %d bytes counted, %d stored", len(uris), counted, actual)
		}

		time.Sleep(31 * time.Minute) // the session expires
		if n := bytesCounted(one); n != actual {
			t.Errorf("%d bytes count while the store has the buckets, want %d", n, actual)
		}
		for _, s := range []*Sessions{one, two} {
			if err := subscribeTo(t, s, id, longURI(1)); !errors.Is(err, ErrNoSession) {
				t.Error(err)
			}
			if n := subscribed(t, s); n != 0 {
				t.Errorf("%d bytes count", n)
			}
		}
		if left := kv.stored(t); len(left) > 0 {
			t.Errorf("the store has %q", left)
		}
		if n := len(one.quota.sessions) + len(one.quota.owners) + len(two.quota.sessions) + len(two.quota.owners); n != 0 {
			t.Errorf("the quotas have %d entries", n)
		}
	})
}

// If the renewal fails, the next request repeats it in time.
func TestRenewalOfBucketsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _, kv, id := bucketed(t, 10)
		nothing := func(*StoredSession) error { return nil }
		must(t, use(t, one, id, func(l *StoredSession) error { return l.MarkReady(t.Context()) }))
		time.Sleep(14 * time.Minute)
		must(t, use(t, one, id, nothing))
		time.Sleep(29 * time.Minute)
		kv.hook(func(op, key string) error {
			if strings.Contains(key, "/subscribed/") {
				return errors.New("unreachable")
			}
			return nil
		}, nil)
		if use(t, one, id, nothing) == nil {
			t.Error("the request does not fail")
		}
		kv.hook(nil, nil)
		time.Sleep(29 * time.Minute)
		must(t, use(t, one, id, nothing))
		if uris, _, _ := kv.contents(t, id); len(uris) != 10 {
			t.Errorf("%d URIs", len(uris))
		}
	})
}

// A replica that has never had the session in memory can end it.
func TestAnyReplicaDeletesTheBuckets(t *testing.T) {
	_, two, kv, id := bucketed(t, 10)
	must(t, two.Delete(t.Context(), principal.Anonymous, id))
	if left := kv.stored(t); len(left) > 0 || bytesCounted(two) != 0 {
		t.Errorf("%d bytes count, and the store has %q", bytesCounted(two), left)
	}
}

func TestSessionThatExpiresDuringAChangeLeavesNothing(t *testing.T) {
	one, _, kv, id := bucketed(t, 10)
	kv.hook(func(op, key string) error {
		if op == "put" {
			kv.hook(nil, nil)
			return kv.KV.Delete(t.Context(), sessionKey(principal.Anonymous, id))
		}
		return nil
	}, nil)
	if err := subscribeTo(t, one, id, longURI(10)); !errors.Is(err, ErrNoSession) {
		t.Errorf("%v", err)
	}
	if left := kv.stored(t); len(left) > 0 || bytesCounted(one) != 0 {
		t.Errorf("%d bytes count, and the store has %q", bytesCounted(one), left)
	}
}
