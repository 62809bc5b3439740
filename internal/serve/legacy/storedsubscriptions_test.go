package legacy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/changes"
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
		must(t, subscribeTo(t, one, id, longURI(i)))
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// A request that fails at any operation, before the store has done it or after that, leaves a
// session that counts at least the bytes that are stored. When the client repeats the request,
// the session counts exactly these bytes.
func TestSubscriptionsSurviveAFailureOfAnyStoreOperation(t *testing.T) {
	broken := errors.New("unreachable")
	changes := map[string]struct {
		change func(t *testing.T, s *Sessions, id string) error
		want   []string
	}{
		"subscribe, new bucket": {func(t *testing.T, s *Sessions, id string) error { return subscribeTo(t, s, id, longURI(3)) }, longURIs(upTo(4)...)},
		"unsubscribe, bucket":   {func(t *testing.T, s *Sessions, id string) error { return unsubscribeFrom(t, s, id, longURI(2)) }, longURIs(0, 1)},
		"unsubscribe, record":   {func(t *testing.T, s *Sessions, id string) error { return unsubscribeFrom(t, s, id, longURI(0)) }, longURIs(1, 2)},
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
					must(t, err)
					if failing < 2 {
						t.Errorf("%s: %d operations", name, n)
					}
					break
				}
				what := fmt.Sprintf("%s, operation %d fails, done %v", name, failing, done)
				if !errors.Is(err, broken) {
					t.Errorf("%s: %v", what, err)
				}
				if _, counted, actual := kv.contents(t, id); counted < actual {
					t.Errorf("%s: the record counts %d bytes, %d are stored", what, counted, actual)
				}
				for _, s := range []*Sessions{two, one} { // on either replica
					must(t, x.change(t, s, id))
					uris, counted, actual := kv.contents(t, id)
					if counted != actual || !slices.Equal(uris, x.want) {
						t.Errorf("%s, then repeated: the record counts %d bytes, %d are stored, %d URIs, want %d", what, counted, actual, len(uris), len(x.want))
					}
					if n := subscribed(t, s); n != actual {
						t.Errorf("%s, then repeated: the replica counts %d bytes, want %d", what, n, actual)
					}
				}
				must(t, two.Delete(t.Context(), principal.Anonymous, id))
				if err := use(t, one, id, func(*StoredSession) error { return nil }); !errors.Is(err, ErrNoSession) {
					t.Error(err)
				}
				if left := kv.stored(t); len(left) > 0 || subscribed(t, one) != 0 || subscribed(t, two) != 0 {
					t.Errorf("%s: after the end %d and %d bytes count, and the store has %q", what, subscribed(t, one), subscribed(t, two), left)
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
	must(t, use(t, one, id, func(l *StoredSession) error { return l.subscriptions.Subscribe(ctx, longURI(3)) }))
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
		"bytes":  {func(i int) string { return longURI(i) + strings.Repeat("y", 7000) }, changes.MaxSubscribedURIs / 8000},
	} {
		t.Run(name, func(t *testing.T) {
			one, two, kv, id := bucketed(t, 0)
			for i := range x.most {
				must(t, subscribeTo(t, []*Sessions{one, two}[i%2], id, x.uri(i)))
			}
			for _, s := range []*Sessions{one, two} {
				if err := subscribeTo(t, s, id, x.uri(x.most)); err == nil || errors.Is(err, store.ErrConflict) {
					t.Errorf("%v", err)
				}
				must(t, subscribeTo(t, s, id, x.uri(7))) // again
			}
			uris, counted, actual := kv.contents(t, id)
			if len(uris) != x.most || counted != actual {
				t.Errorf("%d URIs, %d bytes counted, %d stored", len(uris), counted, actual)
			}
			must(t, unsubscribeFrom(t, two, id, x.uri(3)))
			must(t, subscribeTo(t, one, id, x.uri(x.most)))
		})
	}
}
