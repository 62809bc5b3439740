package legacy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// hookedStore calls functions before and after each operation. Their errors are those of the
// operation. It knows its keys.
type hookedStore struct {
	store.KV

	mu     sync.Mutex
	keys   map[string]bool
	before func(op, key string) error
	after  func(op, key string) error
}

func newHookedStore() *hookedStore {
	return &hookedStore{KV: store.NewMemory(store.MemoryOptions{}), keys: make(map[string]bool)}
}

func (s *hookedStore) hook(before, after func(op, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// do performs an operation between the hooks.
func (s *hookedStore) do(op, key string, f func() error) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.keys[key] = true
	s.mu.Unlock()
	if before != nil {
		if err := before(op, key); err != nil {
			return err
		}
	}
	err := f()
	if after != nil && err == nil {
		err = after(op, key)
	}
	return err
}

func (s *hookedStore) Get(ctx context.Context, key string) (item store.Item, err error) {
	err = s.do("get", key, func() error { item, err = s.KV.Get(ctx, key); return err })
	return item, err
}

func (s *hookedStore) Touch(ctx context.Context, key string, ttl time.Duration) (item store.Item, err error) {
	err = s.do("touch", key, func() error { item, err = s.KV.Touch(ctx, key, ttl); return err })
	return item, err
}

func (s *hookedStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (version uint64, err error) {
	err = s.do("put", key, func() error { version, err = s.KV.Put(ctx, key, value, opt); return err })
	return version, err
}

func (s *hookedStore) Delete(ctx context.Context, key string) error {
	return s.do("delete", key, func() error { return s.KV.Delete(ctx, key) })
}

// stored returns the keys that exist.
func (s *hookedStore) stored(t *testing.T) (keys []string) {
	t.Helper()
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.keys))
	s.mu.Unlock()
	for _, key := range all {
		if _, err := s.KV.Get(t.Context(), key); err == nil {
			keys = append(keys, key)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return keys
}

// contents returns the URIs of an anonymous session in the store, the bytes that its record counts,
// and those that the URIs count.
func (s *hookedStore) contents(t *testing.T, id string) (uris []string, counted, actual int) {
	t.Helper()
	key := sessionKey(principal.Anonymous, id)
	item, err := s.KV.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	state, err := DecodeState(item.Value)
	if err != nil {
		t.Fatal(err)
	}
	uris = state.Subscribed
	for i := range maxBuckets {
		item, err := s.KV.Get(t.Context(), bucketKey(key, i))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		b, err := decodeBucket(item.Value)
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, b.uris...)
	}
	slices.Sort(uris)
	if n := len(slices.Compact(slices.Clone(uris))); n != len(uris) {
		t.Errorf("%d URIs are stored twice", len(uris)-n)
	}
	return uris, state.subscribedSize(), changes.SubscribedSize(uris...)
}
