package tokenstore

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Memory is an oauth.TokenStore in memory. The zero value is an empty store.
type Memory struct {
	mu     sync.Mutex
	values map[string][]byte
	locks  map[string]*lock
}

type lock struct {
	slot  chan struct{} // capacity 1
	users int
}

// Load implements oauth.TokenStore.
func (m *Memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]byte(nil), m.values[key]...), nil
}

// Save implements oauth.TokenStore.
func (m *Memory) Save(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == nil {
		delete(m.values, key)
		return nil
	}
	if m.values == nil {
		m.values = make(map[string][]byte)
	}
	if _, known := m.values[key]; !known && len(m.values) >= maxEntries {
		return errStoreFull
	}
	m.values[key] = append([]byte(nil), value...)
	return nil
}

// Keys returns all keys in no particular order.
func (m *Memory) Keys(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.values)), nil
}

// Lock implements oauth.TokenStore.
func (m *Memory) Lock(ctx context.Context, key string) (unlock func(), err error) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = make(map[string]*lock)
	}
	l := m.locks[key]
	if l == nil {
		l = &lock{slot: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
		}
	}
	select {
	case l.slot <- struct{}{}:
		return func() { <-l.slot; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
