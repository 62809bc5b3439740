package legacy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// replicated returns two replicas on one store, and an anonymous session with subscriptions to the first n URIs of
// longURI.
func replicated(t *testing.T, n int) (one, two *Sessions, kv *faultyStore, id string) {
	t.Helper()
	kv = newFaultyStore()
	replica := func() *Sessions {
		server, _ := newServer()
		server.Changes = new(changes.Broadcaster)
		return NewSessions(server, kv, SessionLimits{})
	}
	one, two = replica(), replica()
	id = mustCreate(t, one, principal.Anonymous, "a")
	for i := range n {
		must.Do(t, subscribeTo(t, one, id, longURI(i)))
	}
	return one, two, kv, id
}

// longURI returns the i-th of the URIs of 1,000 bytes.
func longURI(i int) string { return fmt.Sprintf("test:%d/%s", i, strings.Repeat("x", 1000))[:1000] }

// use calls f with a session, as a request does.
func use(t *testing.T, s *Sessions, id string, f func(*StoredSession) error) error {
	l, err := s.Use(t.Context(), principal.Anonymous, id, true)
	if err != nil {
		return err
	}
	defer l.Release()
	return f(l)
}

func subscribeTo(t *testing.T, s *Sessions, id, uri string) error {
	return use(t, s, id, func(l *StoredSession) error { return l.subscriptions.Subscribe(t.Context(), uri) })
}

func unsubscribeFrom(t *testing.T, s *Sessions, id, uri string) error {
	return use(t, s, id, func(l *StoredSession) error { return l.subscriptions.Unsubscribe(t.Context(), uri) })
}

// recordOf returns the record of an anonymous session in the store.
func recordOf(t *testing.T, kv store.KV, id string) (State, int) {
	t.Helper()
	item := must.Get(kv.Get(t.Context(), sessionKey(principal.Anonymous, id)))(t)
	return must.Get(DecodeState(item.Value))(t), len(item.Value)
}

// The limits of a session apply at all replicas together. Above them a client learns what to do.
func TestSubscriptionsOfASessionAreLimited(t *testing.T) {
	for name, x := range map[string]struct {
		uri  func(i int) string
		most int
		want string
	}{
		"number": {func(i int) string { return fmt.Sprintf("test:%d", i) }, changes.MaxSubscribed, "too many resources"},
		"bytes":  {longURI, 32, "unsubscribe from other resources, or subscribe in another session"},
	} {
		t.Run(name, func(t *testing.T) {
			one, two, kv, id := replicated(t, 0)
			for i := range x.most {
				must.Do(t, subscribeTo(t, []*Sessions{one, two}[i%2], id, x.uri(i)))
			}
			for _, s := range []*Sessions{one, two} {
				var invalid *jsonrpc.Error
				err := subscribeTo(t, s, id, x.uri(x.most))
				must.CheckThat(t, errors.As(err, &invalid) && invalid.Code == jsonrpc.CodeInvalidParams &&
					strings.Contains(invalid.Message, x.want), "%v", err)
				must.Do(t, subscribeTo(t, s, id, x.uri(7))) // again
			}
			if state, n := recordOf(t, kv, id); len(state.Subscribed) != x.most || n > maxRecord {
				t.Errorf("%d URIs in %d bytes", len(state.Subscribed), n)
			}
			must.Do(t, unsubscribeFrom(t, two, id, x.uri(3)))
			must.Do(t, unsubscribeFrom(t, two, id, x.uri(3))) // again
			must.Do(t, subscribeTo(t, one, id, x.uri(x.most)))
		})
	}
}

// A session that lives as long as its connection has no record.
func TestCostOfASubscriptionOfAConnectionDoesNotGrowWithTheirNumber(t *testing.T) {
	server, _ := newServer()
	server.Changes = new(changes.Broadcaster)
	session := server.NewSession(principal.Anonymous)
	session.Address = "a"
	defer session.Close()
	u := &session.subscriptions
	u.restore(&State{Ready: true})
	queue := session.Notifications()
	defer queue.Close()
	added := 0
	grow := func(n int) {
		for ; added < n; added++ {
			must.Do(t, u.Subscribe(t.Context(), longURI(added)))
		}
	}
	uri := longURI(2_000)
	cost := func() uint64 {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			must.Do(t, errors.Join(u.Subscribe(t.Context(), uri), u.Unsubscribe(t.Context(), uri)))
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / runs
	}
	grow(10)
	few := cost()
	grow(1_000)
	if many := cost(); many > 2*few+512 {
		t.Errorf("a change allocates %d bytes with 1,000 subscriptions, and %d with 10", many, few)
	}
}

// A change that the store fails to write has no effect, and the client can repeat it.
func TestSubscriptionsThatCannotBeStoredFail(t *testing.T) {
	one, _, kv, id := replicated(t, 1)
	broken := errors.New("unreachable")
	for _, change := range []func(*subscriptions) error{
		func(s *subscriptions) error { return s.Subscribe(t.Context(), longURI(1)) },
		func(s *subscriptions) error { return s.Unsubscribe(t.Context(), longURI(0)) },
	} {
		before, _ := recordOf(t, kv.KV, id)
		must.CheckIs(t, use(t, one, id, func(l *StoredSession) error {
			kv.failWith(broken)
			defer kv.fail.Store(nil)
			return change(&l.subscriptions)
		}), broken)
		must.CheckEqual(t, fmt.Sprint(recordOf(t, kv.KV, id)), fmt.Sprint(before, len(before.Encode())))
		must.Do(t, use(t, one, id, func(l *StoredSession) error { return change(&l.subscriptions) }))
	}
	state, _ := recordOf(t, kv, id)
	must.CheckThat(t, slices.Equal(state.Subscribed, []string{longURI(1)}), "%.80q", state.Subscribed)
}

func TestASessionThatHasEndedHasNoSubscriptions(t *testing.T) {
	one, two, kv, id := replicated(t, 1)
	must.CheckIs(t, use(t, one, id, func(l *StoredSession) error {
		must.Do(t, kv.Delete(t.Context(), l.key)) // it expires
		return l.subscriptions.Subscribe(t.Context(), longURI(1))
	}), ErrNoSession)
	for _, s := range []*Sessions{one, two} {
		must.CheckIs(t, subscribeTo(t, s, id, longURI(2)), ErrNoSession)
		must.CheckEqual(t, len(s.quota.sessions)+len(s.quota.owners), 0)
	}
}

// Concurrent changes at two replicas all take effect.
func TestReplicasChangeSubscriptionsConcurrently(t *testing.T) {
	one, two, kv, id := replicated(t, 5)
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			s := []*Sessions{one, two}[client%2]
			for i := range 40 {
				uri := fmt.Sprintf("test:%d", 100*client+i%10)
				change := subscribeTo
				if i/10%2 == 1 {
					change = unsubscribeFrom
				}
				var err error
				for range 100 {
					if err = change(t, s, id, uri); !errors.Is(err, store.ErrConflict) {
						break
					}
				}
				must.Check(t, err)
			}
		})
	}
	clients.Wait()
	state, _ := recordOf(t, kv, id)
	must.CheckThat(t, len(state.Subscribed) == 5, "%.80q", state.Subscribed)
}

// notified reports whether a queue has a notification after an update of a URI.
func notified(s *Sessions, queue *NotificationQueue, uri string) bool {
	takeAll(queue)
	time.Sleep(time.Second)
	s.server.Changes.Publish(changes.Change{Kind: changes.ResourceUpdated, URI: uri})
	return strings.Contains(takeAll(queue), uri)
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
		one, two, _, id := replicated(t, 3)
		must.Do(t, use(t, two, id, func(*StoredSession) error { return nil }))
		two.mu.Lock()
		two.evict(two.cache.oldest)
		two.mu.Unlock()
		l, queue := openStream(t, two, id)
		defer l.Release()
		want := func(subscribed ...int) {
			t.Helper()
			for i := range 6 {
				must.CheckEqual(t, notified(two, queue, longURI(i)), slices.Contains(subscribed, i), i)
			}
		}
		want(0, 1, 2)
		must.Do(t, subscribeTo(t, one, id, longURI(3)))
		must.Do(t, unsubscribeFrom(t, one, id, longURI(0)))
		must.Do(t, use(t, two, id, func(*StoredSession) error { return nil })) // a request reads the record
		want(1, 2, 3)
		must.Do(t, subscribeTo(t, two, id, longURI(4)))
		must.Do(t, unsubscribeFrom(t, two, id, longURI(1)))
		want(2, 3, 4)
		must.Do(t, subscribeTo(t, one, id, longURI(5)))
		must.Do(t, two.Refresh(t.Context(), l.key)) // a message of the other replica
		want(2, 3, 4, 5)
		queue.Close()
		must.CheckThat(t, l.subscriptions.uris == nil, "the URIs stay in memory without a stream")
	})
}

// hookedKV calls a function once after the next Get.
type hookedKV struct {
	store.KV
	afterGet func()
}

func (kv *hookedKV) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := kv.KV.Get(ctx, key)
	if after := kv.afterGet; after != nil {
		kv.afterGet = nil
		after()
	}
	return item, err
}

// Another replica changes the subscriptions while this one reads them for a stream.
func TestAStreamBeginsWithTheNewestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, kv, id := replicated(t, 1)
		must.Do(t, use(t, two, id, func(l *StoredSession) error { return l.MarkReady(t.Context()) }))
		hooked := &hookedKV{KV: kv}
		two.store = hooked
		l := two.UseLately(sessionKey(principal.Anonymous, id)) // without its record
		defer l.Release()
		hooked.afterGet = func() {
			must.Do(t, subscribeTo(t, one, id, longURI(1)))
			must.Do(t, two.Refresh(t.Context(), l.key))
		}
		_, queue, err := l.Stream(t.Context(), "g")
		must.Do(t, err)
		defer queue.Close()
		must.CheckThat(t, notified(two, queue, longURI(1)), "a subscription is missing")
	})
}
