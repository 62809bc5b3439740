package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/store"
)

// full is a store with a clock.
type full interface {
	store.Store
	Clock
}

// memory is a store in memory in a bubble, whose clock it advances.
type memory struct{ store.Store }

func (m memory) Advance(d time.Duration) { time.Sleep(d) }

// small returns a store that has room for about 20 values and members of 1 KiB.
func small(m full) full {
	type place struct{ set, name string } // the set, "" for an item
	sizes := make(map[place]int)
	// fits reports whether there is room for an item or a member. If so, it counts it.
	fits := func(ctx context.Context, at place, size int) bool {
		total := size
		for p, size := range sizes {
			_, err := m.Get(ctx, p.name)
			if p.set != "" {
				members, _ := m.List(ctx, p.set, "", maxList)
				if err = nil; !slices.Contains(members, p.name) {
					err = store.ErrNotFound
				}
			}
			if err != nil {
				delete(sizes, p)
			} else if p != at {
				total += size
			}
		}
		if total > 21<<10 {
			return false
		}
		sizes[at] = size
		return true
	}
	return breakStore(m, func(m full, h *hooked) {
		h.put = func(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
			switch {
			case fits(ctx, place{name: key}, len(value)):
				return m.Put(ctx, key, value, opt)
			case opt.IfAbsent || opt.IfVersion != 0:
				return 0, store.ErrConflict
			}
			return 0, store.ErrFull
		}
		h.add = func(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
			if !fits(ctx, place{set, member}, len(member)) {
				return store.ErrFull
			}
			return m.Add(ctx, set, member, ttl, limit)
		}
	})
}

// hooked is a store with other implementations of some methods. They run one at a time.
type hooked struct {
	full
	mu        sync.Mutex
	get       func(context.Context, string) (store.Item, error)
	put       func(context.Context, string, []byte, store.PutOptions) (uint64, error)
	touch     func(context.Context, string, time.Duration) (store.Item, error)
	delete    func(context.Context, string) error
	add       func(context.Context, string, string, time.Duration, int) error
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

func (h *hooked) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	defer h.lock()()
	return h.add(ctx, set, member, ttl, limit)
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
