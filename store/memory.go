package store

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/internal/topics"
)

// Limits of a memory, in bytes.
const (
	maxBytes    = 256 << 20 // for the KV and the Set
	maxLogBytes = 256 << 20 // for the Log
)

// entryOverhead approximates the memory of an entry in addition to its key and value: the struct, its
// slots in the map and the heap, and the rounding of the allocator.
const entryOverhead = 160

// memory is a Store in the memory of this process. Get and Touch of an existing key do not allocate.
type memory struct {
	maxBytes int64
	now      func() time.Time // never goes backwards
	start    time.Time        // expiry times are nanoseconds since start

	mu      sync.RWMutex
	entries map[string]*entry
	sets    map[string]*memorySet
	due     expiryHeap // exactly the entries of the map and the members of the sets
	bytes   int64      // sum of entry.cost
	version uint64     // version of the latest Put to any key: versions never repeat, not even after a delete
	peak    int        // maximum of len(entries) since the map was made

	// These have their own locks and share nothing with the fields above.
	log    memoryLog
	topics topics.Topics[Message]
}

// entry is an item or a member of a set.
type entry struct {
	key   string // key or member
	set   *memorySet
	item  Item
	index int   // position in the heap
	due   int64 // when removeExpired checks the entry; never later than expires

	// expires may be increased under the read lock, which makes Touch as cheap as Get. It is decreased
	// only under the write lock, together with due.
	expires atomic.Int64
}

func (e *entry) cost() int64 { return cost(e.key, e.item.Value) }

func cost(key string, value []byte) int64 {
	return int64(len(key)) + int64(len(value)) + entryOverhead
}

// NewMemory returns an empty Store in the memory of this process. It starts no goroutine and need not be closed. Its KV
// and its Set share a limit of 256 MiB, including names and overhead; its Log has another 256 MiB.
//
// An expired item is not found anymore. Later writes release its memory: each write removes a few
// expired items, and a write that exceeds a limit removes all of them before it fails.
func NewMemory() Store { return newMemory(maxBytes, maxLogBytes, time.Now) }

func newMemory(maxBytes, maxLogBytes int64, now func() time.Time) *memory {
	return &memory{
		maxBytes: maxBytes, now: now, start: now(), entries: make(map[string]*entry),
		log: memoryLog{max: maxLogBytes}, topics: topics.Topics[Message]{Lost: Message{Lost: true}},
	}
}

// clock returns the nanoseconds since NewMemory.
func (m *memory) clock() int64 { return int64(m.now().Sub(m.start)) }

// after returns now + ttl without overflow.
func after(now int64, ttl time.Duration) int64 {
	if int64(ttl) > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + int64(ttl)
}

// Get implements [KV].
func (m *memory) Get(ctx context.Context, key string) (Item, error) {
	if err := ctx.Err(); err != nil {
		return Item{}, err
	}
	now := m.clock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.entries[key]
	if e == nil || e.expires.Load() <= now {
		return Item{}, ErrNotFound
	}
	return e.item, nil
}

// Touch implements [KV].
func (m *memory) Touch(ctx context.Context, key string, ttl time.Duration) (Item, error) {
	if err := ctx.Err(); err != nil {
		return Item{}, err
	}
	if err := storecheck.TTL(ttl); err != nil {
		return Item{}, err
	}
	now := m.clock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.entries[key]
	if e == nil || !e.extend(now, ttl) {
		return Item{}, ErrNotFound
	}
	return e.item, nil
}

// extend makes e live at least ttl from now. It returns false if e has expired.
func (e *entry) extend(now int64, ttl time.Duration) bool {
	for until := after(now, ttl); ; {
		expires := e.expires.Load()
		if expires <= now {
			return false
		}
		if expires >= until || e.expires.CompareAndSwap(expires, until) {
			return true
		}
	}
}

// Put implements [KV].
func (m *memory) Put(ctx context.Context, key string, value []byte, opt PutOptions) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := storecheck.Put(key, value, opt.TTL, opt.IfAbsent, opt.IfVersion); err != nil {
		return 0, err
	}
	// Copy before taking the lock, so that a long value does not delay other callers.
	value = append(make([]byte, 0, len(value)), value...)

	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	m.removeExpired(now, 2)

	e := m.entries[key]
	if e != nil && e.expires.Load() <= now {
		m.remove(e)
		e = nil
	}
	if opt.IfAbsent && e != nil || opt.IfVersion != 0 && (e == nil || e.item.Version != opt.IfVersion) {
		return 0, ErrConflict
	}
	if err := m.checkLimits(now, key, value, e); err != nil {
		return 0, err
	}
	m.version++
	expires := after(now, opt.TTL)
	if e == nil {
		e = &entry{key: key, due: expires}
		m.entries[key] = e
		m.peak = max(m.peak, len(m.entries))
		m.bytes += int64(len(key)) + entryOverhead
		e.expires.Store(expires)
		heap.Push(&m.due, e)
	} else {
		m.bytes -= int64(len(e.item.Value))
		e.expires.Store(expires)
		if expires < e.due {
			e.due = expires
			heap.Fix(&m.due, e.index)
		}
	}
	m.bytes += int64(len(value))
	e.item = Item{Value: value, Version: m.version}
	return m.version, nil
}

// checkLimits returns ErrFull if writing value at key would exceed a limit, even after all expired
// entries are removed. old is the entry at key, or nil.
func (m *memory) checkLimits(now int64, key string, value []byte, old *entry) error {
	need := cost(key, value)
	if old != nil {
		need -= old.cost()
	}
	fits := func() bool { return m.bytes+need <= m.maxBytes }
	if fits() {
		return nil
	}
	m.removeExpired(now, math.MaxInt)
	if fits() {
		return nil
	}
	return m.full()
}

func (m *memory) full() error {
	return fmt.Errorf("%w: %d bytes, the limit is %d", ErrFull, m.bytes, m.maxBytes)
}

// Delete implements [KV].
func (m *memory) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[key]; e != nil {
		m.remove(e)
	}
	return nil
}

// removeExpired removes up to limit expired entries. An entry that Touch has extended moves to its new
// position in the heap instead, only once however often it was touched.
func (m *memory) removeExpired(now int64, limit int) {
	for ; limit > 0 && len(m.due) > 0 && m.due[0].due <= now; limit-- {
		e := m.due[0]
		if expires := e.expires.Load(); expires > now {
			e.due = expires
			heap.Fix(&m.due, e.index)
		} else {
			m.remove(e)
		}
	}
}

func (m *memory) remove(e *entry) {
	heap.Remove(&m.due, e.index)
	m.bytes -= e.cost()
	if e.set != nil {
		m.leave(e)
		return
	}
	delete(m.entries, e.key)

	// A Go map does not shrink. Copy it to a smaller one after a peak; the cost is amortized over the
	// removals.
	if m.peak > 1024 && len(m.entries) < m.peak/4 {
		smaller := make(map[string]*entry, len(m.entries))
		for k, v := range m.entries {
			smaller[k] = v
		}
		m.entries, m.peak = smaller, len(smaller)
	}
}

// Publish implements [Bus].
func (m *memory) Publish(ctx context.Context, topic string, message []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := storecheck.Publish(topic, message); err != nil {
		return err
	}
	m.topics.Deliver(topic, Message{Data: append(make([]byte, 0, len(message)), message...)})
	return nil
}

// Subscribe implements [Bus].
func (m *memory) Subscribe(ctx context.Context, topic string, queue int) (*Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := storecheck.Subscribe(topic, queue); err != nil {
		return nil, err
	}
	s := m.topics.Subscribe(topic, queue, nil)
	return NewSubscription(s.C, s.Close), nil
}

// expiryHeap is a heap of entries, ordered by due. Each entry knows its index.
type expiryHeap []*entry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *expiryHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if c := cap(*h); c > 1024 && last < c/4 { // release memory after a peak, as memory.remove does
		*h = append(make(expiryHeap, 0, c/2), *h...)
	}
	return e
}
