package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/store"
)

// full is a store that implements everything.
type full interface {
	store.KV
	store.Log
	store.Bus
	Clock
}

// memory is a Memory with a clock that the test advances.
type memory struct {
	*store.Memory
	mu  sync.Mutex
	now time.Time
}

func newMemory(opts store.MemoryOptions) *memory {
	m := &memory{now: time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)}
	opts.Now = func() time.Time {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.now
	}
	m.Memory = store.NewMemory(opts)
	return m
}

func (m *memory) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// hooked is a store with other implementations of some methods. They run one at a time.
type hooked struct {
	full
	mu        sync.Mutex
	get       func(context.Context, string) (store.Item, error)
	put       func(context.Context, string, []byte, store.PutOptions) (uint64, error)
	touch     func(context.Context, string, time.Duration) (store.Item, error)
	delete    func(context.Context, string) error
	add       func(context.Context, string, string, store.AddOptions) error
	remove    func(context.Context, string, string) error
	list      func(context.Context, string, string, int) ([]string, error)
	append    func(context.Context, store.StreamKey, uint64, []byte, store.AppendOptions) error
	readAfter func(context.Context, store.StreamKey, uint64) ([][]byte, error)
	drop      func(context.Context, string) error
	publish   func(context.Context, string, []byte) error
	subscribe func(context.Context, string, int) (*store.Subscription, error)
}

// lock returns the function that unlocks.
func (h *hooked) lock() func() {
	h.mu.Lock()
	return h.mu.Unlock
}

// breakStore returns a store with a fault.
func breakStore(m full, fault func(m full, h *hooked)) *hooked {
	h := &hooked{
		full: m, get: m.Get, put: m.Put, touch: m.Touch, delete: m.Delete, add: m.Add, remove: m.Remove, list: m.List,
		append: m.Append, readAfter: m.ReadAfter, drop: m.Drop, publish: m.Publish, subscribe: m.Subscribe,
	}
	fault(m, h)
	return h
}

func (h *hooked) Get(ctx context.Context, key string) (store.Item, error) {
	defer h.lock()()
	return h.get(ctx, key)
}

func (h *hooked) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	defer h.lock()()
	return h.put(ctx, key, value, opt)
}

func (h *hooked) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	defer h.lock()()
	return h.touch(ctx, key, ttl)
}

func (h *hooked) Delete(ctx context.Context, key string) error {
	defer h.lock()()
	return h.delete(ctx, key)
}

func (h *hooked) Add(ctx context.Context, set, member string, opt store.AddOptions) error {
	defer h.lock()()
	return h.add(ctx, set, member, opt)
}

func (h *hooked) Remove(ctx context.Context, set, member string) error {
	defer h.lock()()
	return h.remove(ctx, set, member)
}

func (h *hooked) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	defer h.lock()()
	return h.list(ctx, set, after, limit)
}

func (h *hooked) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
	opt store.AppendOptions) error {
	defer h.lock()()
	return h.append(ctx, key, seq, entry, opt)
}

func (h *hooked) ReadAfter(ctx context.Context, key store.StreamKey, seq uint64) ([][]byte, error) {
	defer h.lock()()
	return h.readAfter(ctx, key, seq)
}

func (h *hooked) Drop(ctx context.Context, group string) error {
	defer h.lock()()
	return h.drop(ctx, group)
}

func (h *hooked) Publish(ctx context.Context, topic string, message []byte) error {
	defer h.lock()()
	return h.publish(ctx, topic, message)
}

func (h *hooked) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	defer h.lock()()
	return h.subscribe(ctx, topic, queue)
}
