package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
)

// TokenStore keeps credentials of one user: a small map of secrets. Keys are readable
// and name URLs, not secrets; at most a few kilobytes long. Values are up to 256 KiB.
// It must be safe for concurrent use, and what it keeps must be readable by nobody but
// the user.
type TokenStore interface {
	// Load returns what was saved last under a key, nil if nothing was. The caller may
	// keep it.
	Load(ctx context.Context, key string) ([]byte, error)
	// Save keeps value, which it does not retain, under a key. Nil deletes.
	Save(ctx context.Context, key string, value []byte) error
	// Lock waits until nobody else who shares what is kept, in this process or another,
	// holds the same key, and holds it until unlock is called. A process that dies holds
	// nothing. Load and Save do not look at locks.
	Lock(ctx context.Context, key string) (unlock func(), err error)
}

// MemoryStore is a TokenStore that lasts as long as the process. The zero value is
// empty.
type MemoryStore struct {
	mu     sync.Mutex
	values map[string][]byte
	locks  map[string]*memoryLock
}

type memoryLock struct {
	held  chan struct{} // capacity 1
	users int
}

// Load implements TokenStore.
func (m *MemoryStore) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]byte(nil), m.values[key]...), nil
}

// Save implements TokenStore.
func (m *MemoryStore) Save(_ context.Context, key string, value []byte) error {
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

// Keys returns the keys under which something is saved, in no order.
func (m *MemoryStore) Keys(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.values)), nil
}

// maxEntries bounds a store. Each server takes three.
const maxEntries = 16 << 10

var errStoreFull = fmt.Errorf("the store of tokens has %d entries: log out of servers that are not used any more", maxEntries)

// Lock implements TokenStore.
func (m *MemoryStore) Lock(ctx context.Context, key string) (unlock func(), err error) {
	m.mu.Lock()
	if m.locks == nil {
		m.locks = make(map[string]*memoryLock)
	}
	l := m.locks[key]
	if l == nil {
		l = &memoryLock{held: make(chan struct{}, 1)}
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
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Keys of a store. Tokens belong to an issuer and a resource, clients to an issuer.
// What is known of an MCP server says which of them are its own: see known.tokenKey.
func serverKey(server string) string { return "server " + server }
func clientKey(issuer string) string { return "client " + issuer }

// known is what is remembered of an MCP server.
type known struct {
	Issuer   string `json:"issuer"`
	Resource string `json:"resource,omitzero"` // exactly as the metadata has it
	Fallback bool   `json:"fallback,omitzero"` // found in the way of 2025-03-26
}

// tokenKey is the key of the token for an MCP server. Where it has no metadata, nothing
// says that the token is for its neighbours on the same host, too.
func (k *known) tokenKey(server string) string {
	resource := k.Resource
	if resource == "" {
		resource = server
	}
	return "token " + k.Issuer + " " + resource
}

// load reads a value; nil if there is none, or none that can be read.
func load[T any](ctx context.Context, s TokenStore, key string) (*T, error) {
	raw, err := s.Load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("the store of tokens: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	v := new(T)
	if json.Unmarshal(raw, v) != nil {
		return nil, nil // of a version that wrote otherwise: as if there were none
	}
	return v, nil
}

func save(ctx context.Context, s TokenStore, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return errors.New("the store of tokens: a value cannot be written")
	}
	if err := s.Save(ctx, key, raw); err != nil {
		return fmt.Errorf("the store of tokens: %w", err)
	}
	return nil
}

func remove(ctx context.Context, s TokenStore, key string) error {
	if err := s.Save(ctx, key, nil); err != nil {
		return fmt.Errorf("the store of tokens: %w", err)
	}
	return nil
}
