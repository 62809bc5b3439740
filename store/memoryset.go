package store

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/storecheck"
)

// memorySet is a set of a memory. It has at least one member, which may have expired.
type memorySet struct {
	name    string
	members []*entry // in ascending order of their keys
}

// find returns the position of a member, or where it belongs. A nil set is empty.
func (s *memorySet) find(member string) (at int, found bool) {
	if s == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(s.members, member, func(e *entry, key string) int { return cmp.Compare(e.key, key) })
}

func (s *memorySet) cost() int64 { return cost(s.name, nil) }

// Add implements [Set].
func (m *memory) Add(ctx context.Context, set, member string, ttl time.Duration, limit int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := storecheck.Add(set, member, ttl, limit); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	m.removeExpired(now, 2)

	if at, found := m.sets[set].find(member); found {
		e := m.sets[set].members[at]
		if e.extend(now, ttl) {
			return nil
		}
		m.remove(e)
	}
	if err := m.checkSetLimits(now, set, member, limit); err != nil {
		return err
	}
	s := m.sets[set]
	if s == nil {
		s = &memorySet{name: set}
		if m.sets == nil {
			m.sets = make(map[string]*memorySet)
		}
		m.sets[set] = s
		m.bytes += s.cost()
	}
	e := &entry{key: member, set: s, due: after(now, ttl)}
	e.expires.Store(e.due)
	at, _ := s.find(member)
	s.members = slices.Insert(s.members, at, e)
	m.bytes += e.cost()
	heap.Push(&m.due, e)
	return nil
}

// checkSetLimits returns ErrFull if a new member would exceed a limit, even after all expired entries
// are removed.
func (m *memory) checkSetLimits(now int64, set, member string, limit int) error {
	fits := func() (inSet, inMemory bool) {
		need := cost(member, nil)
		s := m.sets[set]
		if s == nil {
			need += cost(set, nil)
		}
		inSet = s == nil || len(s.members) < limit
		return inSet, m.bytes+need <= m.maxBytes
	}
	inSet, inMemory := fits()
	if !inSet || !inMemory {
		m.removeExpired(now, math.MaxInt)
		inSet, inMemory = fits()
	}
	if !inSet {
		return fmt.Errorf("%w: the set has %d members, the limit is %d: %w",
			ErrFull, len(m.sets[set].members), limit, ErrConflict)
	}
	if !inMemory {
		return m.full()
	}
	return nil
}

// Remove implements [Set].
func (m *memory) Remove(ctx context.Context, set, member string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, found := m.sets[set].find(member); found {
		m.remove(m.sets[set].members[at])
	}
	return nil
}

// List implements [Set].
func (m *memory) List(ctx context.Context, set, after string, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := storecheck.List(limit); err != nil {
		return nil, err
	}
	now := m.clock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.sets[set]
	if s == nil {
		return nil, nil
	}
	at, found := s.find(after)
	if found {
		at++
	}
	var members []string
	for ; at < len(s.members) && len(members) < limit; at++ {
		if e := s.members[at]; e.expires.Load() > now {
			members = append(members, e.key)
		}
	}
	return members, nil
}

// leave removes an entry from its set.
func (m *memory) leave(e *entry) {
	s := e.set
	at, _ := s.find(e.key)
	s.members = slices.Delete(s.members, at, at+1)
	if len(s.members) == 0 {
		delete(m.sets, s.name)
		m.bytes -= s.cost()
	}
}
