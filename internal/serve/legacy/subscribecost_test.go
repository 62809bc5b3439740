package legacy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

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
			l, err := s.Use(t.Context(), principal.Anonymous, id)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if err := change(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(n int, what string, change func(l *StoredSession) error) {
		t.Helper()
		c := metered.cost(request(change))
		t.Logf("with %d subscriptions %s needs %d operations, reads %d bytes and writes %d", n, what, c.ops, c.read, c.written)
		if c.read > most || c.written > most || c.ops > 5 {
			t.Errorf("with %d subscriptions %s needs %d operations, reads %d bytes and writes %d", n, what, c.ops, c.read, c.written)
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
			if err := u.Subscribe(t.Context(), longURI(added)); err != nil {
				t.Fatal(err)
			}
		}
	}
	uri := longURI(2_000)
	cost := func() uint64 {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if err := errors.Join(u.Subscribe(t.Context(), uri), u.Unsubscribe(t.Context(), uri)); err != nil {
				t.Fatal(err)
			}
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
