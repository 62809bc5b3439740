package legacy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/principal"
)

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
			if err != nil {
				t.Fatal(err)
			}
		}
		a, b := changes.SubscribedSize("test:a"), changes.SubscribedSize("test:bb")
		want(a, a+b)
		_ = change(one, func(*StoredSession) error { return nil }) // reads the change of the other replica
		want(a+b, a+b)
		if err := change(two, func(l *StoredSession) error { return l.subscriptions.Unsubscribe(t.Context(), "test:a") }); err != nil {
			t.Fatal(err)
		}
		want(a+b, b)

		failed := errors.New("unreachable")
		err := change(two, func(l *StoredSession) error {
			kv.failWith(failed)
			defer kv.fail.Store(nil)
			return l.subscriptions.Subscribe(t.Context(), "test:c")
		})
		if !errors.Is(err, failed) {
			t.Errorf("%v", err)
		}
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
	if err := l.subscriptions.Subscribe(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	l.Release()
	one.mu.Lock()
	one.evict(one.cache.oldest)
	one.mu.Unlock()
	if n := subscribed(t, one); n != changes.SubscribedSize(uri) {
		t.Errorf("%d bytes", n)
	}
	if err := one.Delete(t.Context(), principal.Anonymous, id); err != nil {
		t.Fatal(err)
	}
	if n := subscribed(t, one); n != 0 {
		t.Errorf("%d bytes after the end of the session", n)
	}
	if n := len(one.quota.sessions) + len(one.quota.owners) + one.quota.created; n != 0 {
		t.Errorf("the quota has %s", fmt.Sprint(one.quota.sessions, one.quota.owners, one.quota.created))
	}
}
