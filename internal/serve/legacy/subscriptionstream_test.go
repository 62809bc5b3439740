package legacy

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/principal"
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
	must(t, l.MarkReady(t.Context()))
	l.subscriptions.activate(s.server.listFilter(principal.Anonymous))
	_, queue, err := l.Stream(t.Context(), "g")
	must(t, err)
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
		ping := func(s *Sessions) { must(t, use(t, s, id, func(*StoredSession) error { return nil })) }
		for i := range 21 {
			want(i, i < 20)
		}
		must(t, subscribeTo(t, one, id, longURI(20)))
		must(t, unsubscribeFrom(t, one, id, longURI(19)))
		must(t, unsubscribeFrom(t, one, id, longURI(0)))
		ping(two) // a request reads the record
		want(20, true)
		want(19, false)
		want(0, false)
		must(t, subscribeTo(t, two, id, longURI(21)))
		must(t, unsubscribeFrom(t, two, id, longURI(18)))
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
		must(t, subscribeTo(t, one, id, longURI(22)))
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
		must(t, subscribeTo(t, one, id, longURI(23)))
		must(t, subscribeTo(t, two, id, longURI(23)))
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
		must(t, unsubscribeFrom(t, one, id, longURI(9)))
		must(t, subscribeTo(t, one, id, longURI(8))) // again
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
		must(t, subscribeTo(t, one, id, longURI(3)))
		broken := errors.New("unreachable")
		kv.hook(func(op, key string) error {
			if strings.Contains(key, "/subscribed/") {
				return broken
			}
			return nil
		}, nil)
		for range 2 {
			if err := use(t, two, id, func(*StoredSession) error { return nil }); !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
		}
		kv.hook(nil, nil)
		must(t, use(t, two, id, func(*StoredSession) error { return nil }))
		if got := notified(two, queue, longURI(3)); !strings.Contains(got, longURI(3)) {
			t.Errorf("%.80q", got)
		}
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
	must(t, err)
	queue.Close()
}
