package legacy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// bucketed returns two replicas on one store, and an anonymous session of address "a" with
// subscriptions to the first n URIs of longURI. All but two are in buckets.
func bucketed(t *testing.T, n int) (one, two *Sessions, kv *hookedStore, id string) {
	t.Helper()
	one, two, _ = counting()
	kv = newHookedStore()
	one.store, two.store = kv, kv
	id = mustCreate(t, one, principal.Anonymous, "a")
	for i := range n {
		must.Do(t, subscribeTo(t, one, id, longURI(i)))
	}
	return one, two, kv, id
}

// bytesCounted returns what subscribed returns, and does not make the quota check sessions.
func bytesCounted(s *Sessions) (n int) {
	s.quota.mu.Lock()
	defer s.quota.mu.Unlock()
	for _, c := range s.quota.sessions {
		n += c.subscribed
	}
	return n
}

// use calls f with a session, as a request does.
func use(t *testing.T, s *Sessions, id string, f func(*StoredSession) error) error {
	l, err := s.Use(t.Context(), principal.Anonymous, id)
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

// longURIs returns URIs of longURI, sorted.
func longURIs(numbers ...int) (uris []string) {
	for _, i := range numbers {
		uris = append(uris, longURI(i))
	}
	slices.Sort(uris)
	return uris
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// A request that fails at any operation, before the store has done it or after that, leaves a session that counts at
// least the bytes that are stored. When the client repeats the request, the session counts exactly these bytes.
func TestSubscriptionsSurviveAFailureOfAnyStoreOperation(t *testing.T) {
	broken := errors.New("unreachable")
	changes := map[string]struct {
		change func(t *testing.T, s *Sessions, id string) error
		want   []string
	}{
		"subscribe, new bucket": {func(t *testing.T, s *Sessions,
			id string) error {
			return subscribeTo(t, s, id, longURI(3))
		}, longURIs(upTo(4)...)},
		"unsubscribe, bucket": {func(t *testing.T, s *Sessions,
			id string) error {
			return unsubscribeFrom(t, s, id, longURI(2))
		}, longURIs(0, 1)},
		"unsubscribe, record": {func(t *testing.T, s *Sessions,
			id string) error {
			return unsubscribeFrom(t, s, id, longURI(0))
		}, longURIs(1, 2)},
	}
	for name, x := range changes {
		for _, done := range []bool{false, true} {
			for failing := 0; ; failing++ {
				one, two, kv, id := bucketed(t, 3)
				n := 0
				fail := func(string, string) error {
					if n++; n == failing+1 {
						return broken
					}
					return nil
				}
				if done {
					kv.hook(nil, fail)
				} else {
					kv.hook(fail, nil)
				}
				err := x.change(t, one, id)
				kv.hook(nil, nil)
				if n <= failing { // the change has fewer operations
					must.Do(t, err)
					if failing < 2 {
						t.Errorf("%s: %d operations", name, n)
					}
					break
				}
				what := fmt.Sprintf("%s, operation %d fails, done %v", name, failing, done)
				must.CheckIs(t, err, broken, what)
				if _, counted, actual := kv.contents(t, id); counted < actual {
					t.Errorf("%s: the record counts %d bytes, %d are stored", what, counted, actual)
				}
				for _, s := range []*Sessions{two, one} { // on either replica
					must.Do(t, x.change(t, s, id))
					uris, counted, actual := kv.contents(t, id)
					if counted != actual || !slices.Equal(uris, x.want) {
						t.Errorf("%s, then repeated: the record counts %d bytes, %d are stored, %d URIs, want %d", what,
							counted, actual,
							len(uris), len(x.want))
					}
					must.CheckEqual(t, subscribed(t, s), actual, what)
				}
				must.Do(t, two.Delete(t.Context(), principal.Anonymous, id))
				must.CheckIs(t, use(t, one, id, func(*StoredSession) error { return nil }), ErrNoSession)
				if left := kv.stored(t); len(left) > 0 || subscribed(t, one) != 0 || subscribed(t, two) != 0 {
					t.Errorf("%s: after the end %d and %d bytes count, and the store has %q", what, subscribed(t, one),
						subscribed(t, two), left)
				}
			}
		}
	}
}

// A client that disconnects does not end a change between two writes.
func TestChangeOfSubscriptionsOutlivesItsRequest(t *testing.T) {
	one, _, kv, id := bucketed(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	kv.hook(func(op, _ string) error {
		if op == "put" {
			cancel()
		}
		return nil
	}, nil)
	must.Do(t, use(t, one, id, func(l *StoredSession) error { return l.subscriptions.Subscribe(ctx, longURI(3)) }))
	if uris, counted, actual := kv.contents(t, id); len(uris) != 4 || counted != actual {
		t.Errorf("%d URIs, %d bytes counted, %d stored", len(uris), counted, actual)
	}
}

// The limits of a session apply to all of its URIs, on all replicas together.
func TestSubscriptionLimitsIncludeAllBuckets(t *testing.T) {
	for name, x := range map[string]struct {
		uri  func(i int) string
		most int
	}{
		"number": {func(i int) string { return fmt.Sprintf("test:%d", i) }, changes.MaxSubscribed},
		"bytes": {func(i int) string {
			return longURI(i) + strings.Repeat("y", 7000)
		}, changes.MaxSubscribedURIs / 8000},
	} {
		t.Run(name, func(t *testing.T) {
			one, two, kv, id := bucketed(t, 0)
			for i := range x.most {
				must.Do(t, subscribeTo(t, []*Sessions{one, two}[i%2], id, x.uri(i)))
			}
			for _, s := range []*Sessions{one, two} {
				if err := subscribeTo(t, s, id, x.uri(x.most)); err == nil || errors.Is(err, store.ErrConflict) {
					t.Errorf("%v", err)
				}
				must.Do(t, subscribeTo(t, s, id, x.uri(7))) // again
			}
			uris, counted, actual := kv.contents(t, id)
			if len(uris) != x.most || counted != actual {
				t.Errorf("%d URIs, %d bytes counted, %d stored", len(uris), counted, actual)
			}
			must.Do(t, unsubscribeFrom(t, two, id, x.uri(3)))
			must.Do(t, subscribeTo(t, one, id, x.uri(x.most)))
		})
	}
}

// meteredStore counts its operations and their bytes.
type meteredStore struct {
	store.KV
	ops, read, written int
}

func (s *meteredStore) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := s.KV.Get(ctx, key)
	s.ops, s.read = s.ops+1, s.read+len(item.Value)
	return item, err
}

func (s *meteredStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	item, err := s.KV.Touch(ctx, key, ttl)
	s.ops, s.read = s.ops+1, s.read+len(item.Value)
	return item, err
}

func (s *meteredStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	s.ops, s.written = s.ops+1, s.written+len(value)
	return s.KV.Put(ctx, key, value, opt)
}

// cost returns the operations and bytes of f.
func (s *meteredStore) cost(f func()) meteredStore {
	s.ops, s.read, s.written = 0, 0, 0
	f()
	return meteredStore{ops: s.ops, read: s.read, written: s.written}
}

// longURI returns the i-th of the URIs of 1,000 bytes.
func longURI(i int) string { return fmt.Sprintf("test:%d/%s", i, strings.Repeat("x", 1000))[:1000] }

// A request reads the record of its session, and a change writes the record and one bucket. A session has
// at most 1 MiB of URIs.
func TestCostOfASubscriptionDoesNotGrowWithTheirNumber(t *testing.T) {
	const most = 64 << 10 // bytes read and written
	s, kv := newSessions(SessionLimits{})
	metered := &meteredStore{KV: kv}
	s.store = metered
	id := mustCreate(t, s, principal.Anonymous, "a")
	request := func(change func(l *StoredSession) error) func() {
		return func() {
			t.Helper()
			l := must.Get(s.Use(t.Context(), principal.Anonymous, id))(t)
			defer l.Release()
			must.Do(t, change(l))
		}
	}
	check := func(n int, what string, change func(l *StoredSession) error) {
		t.Helper()
		c := metered.cost(request(change))
		t.Logf("with %d subscriptions %s needs %d operations, reads %d bytes and writes %d", n, what, c.ops, c.read,
			c.written)
		if c.read > most || c.written > most || c.ops > 5 {
			t.Errorf("with %d subscriptions %s needs %d operations, reads %d bytes and writes %d", n, what, c.ops,
				c.read,
				c.written)
		}
	}
	for n := range 1_001 {
		subscribe := func(l *StoredSession) error { return l.subscriptions.Subscribe(t.Context(), longURI(n)) }
		unsubscribe := func(l *StoredSession) error { return l.subscriptions.Unsubscribe(t.Context(), longURI(n)) }
		if n != 1 && n != 10 && n != 100 && n != 1000 {
			request(subscribe)()
			continue
		}
		check(n, "subscribe", subscribe)
		check(n, "subscribe again", subscribe)
		check(n, "unsubscribe", unsubscribe)
		check(n, "another request", func(*StoredSession) error { return nil })
		request(subscribe)()
	}
}

// The same for a session that lives as long as its connection, which has no record.
func TestCostOfASubscriptionOfAConnectionDoesNotGrowWithTheirNumber(t *testing.T) {
	server, _ := newServer()
	server.Changes = new(changes.Broadcaster)
	session := server.NewSession(principal.Anonymous)
	session.Address = "a"
	defer session.Close()
	u := &session.subscriptions
	u.restore(true)
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

func BenchmarkSubscribe(b *testing.B) {
	for _, n := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("%d subscriptions", n), func(b *testing.B) {
			s, _ := newSessions(SessionLimits{})
			id, err := s.Create(b.Context(), principal.Anonymous, "a", someState)
			if err != nil {
				b.Fatal(err)
			}
			change := func(change func(l *StoredSession) error) {
				l, err := s.Use(b.Context(), principal.Anonymous, id)
				if err != nil {
					b.Fatal(err)
				}
				defer l.Release()
				if err := change(l); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n {
				change(func(l *StoredSession) error { return l.subscriptions.Subscribe(b.Context(), longURI(i)) })
			}
			b.ReportAllocs()
			for b.Loop() {
				change(func(l *StoredSession) error { return l.subscriptions.Subscribe(b.Context(), longURI(n)) })
				change(func(l *StoredSession) error { return l.subscriptions.Unsubscribe(b.Context(), longURI(n)) })
			}
		})
	}
}

// counting returns two replicas that count subscribed URIs and share a store.
func counting() (one, two *Sessions, kv *faultyStore) {
	kv = newFaultyStore()
	replica := func() *Sessions {
		server, _ := newServer()
		server.Changes = new(changes.Broadcaster)
		return NewSessions(server, kv, SessionLimits{})
	}
	return replica(), replica(), kv
}

// subscribed returns the bytes that a replica counts for the anonymous clients of address "a".
func subscribed(t *testing.T, s *Sessions) int {
	t.Helper()
	bytes, owner := s.server.Changes.Bytes(), changes.OwnerOf(principal.Anonymous, "a")
	free := 0
	for step := changes.MaxOwnerSubscribed; step > 0; step /= 2 {
		for bytes.Add(t.Context(), owner, step) == nil {
			free += step
		}
	}
	bytes.Force(owner, -free)
	return changes.MaxOwnerSubscribed - free
}

func TestReplicasCountTheBytesOfTheSessionsThatTheyServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, kv := counting()
		id := mustCreate(t, one, principal.Anonymous, "a")
		change := func(s *Sessions, change func(*StoredSession) error) error {
			t.Helper()
			l := mustOpen(t, s, principal.Anonymous, id)
			defer l.Release()
			return change(l)
		}
		subscribe := func(s *Sessions, uri string) error {
			t.Helper()
			return change(s, func(l *StoredSession) error { return l.subscriptions.Subscribe(t.Context(), uri) })
		}
		want := func(first, second int) {
			t.Helper()
			if a, b := subscribed(t, one), subscribed(t, two); a != first || b != second {
				t.Errorf("the replicas count %d and %d bytes, want %d and %d", a, b, first, second)
			}
		}
		want(0, 0)
		for _, err := range []error{subscribe(one, "test:a"), subscribe(one, "test:a"), subscribe(two, "test:bb")} {
			must.Do(t, err)
		}
		a, b := changes.SubscribedSize("test:a"), changes.SubscribedSize("test:bb")
		want(a, a+b)
		_ = change(one, func(*StoredSession) error { return nil }) // reads the change of the other replica
		want(a+b, a+b)
		if err := change(two, func(l *StoredSession) error {
			return l.subscriptions.Unsubscribe(t.Context(),
				"test:a")
		}); err != nil {
			t.Fatal(err)
		}
		want(a+b, b)

		failed := errors.New("unreachable")
		err := change(two, func(l *StoredSession) error {
			kv.failWith(failed)
			defer kv.fail.Store(nil)
			return l.subscriptions.Subscribe(t.Context(), "test:c")
		})
		must.CheckIs(t, err, failed)
		want(a+b, b)

		time.Sleep(31 * time.Second)
		for _, s := range []*Sessions{one, two} {
			if _, err := s.Open(t.Context(), principal.Anonymous, id); !errors.Is(err, ErrNoSession) {
				t.Fatal(err)
			}
		}
		want(0, 0)
	})
}

// A session that the cache evicts counts, because the store has it.
func TestBytesOfEvictedSessionsCount(t *testing.T) {
	one, _, _ := counting()
	id := mustCreate(t, one, principal.Anonymous, "a")
	l := mustOpen(t, one, principal.Anonymous, id)
	uri := "test:" + strings.Repeat("x", 1000)
	must.Do(t, l.subscriptions.Subscribe(t.Context(), uri))
	l.Release()
	one.mu.Lock()
	one.evict(one.cache.oldest)
	one.mu.Unlock()
	must.CheckEqual(t, subscribed(t, one), changes.SubscribedSize(uri))
	must.Do(t, one.Delete(t.Context(), principal.Anonymous, id))
	must.CheckEqual(t, subscribed(t, one), 0)
	if n := len(one.quota.sessions) + len(one.quota.owners) + one.quota.created; n != 0 {
		t.Errorf("the quota has %s", fmt.Sprint(one.quota.sessions, one.quota.owners, one.quota.created))
	}
}
