package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/storecheck"
)

// memorySet is a set of a memory and has at least one member, which may have expired.
type memorySet struct {
	name    string
	members map[string]*entry
	order   []string // the keys of members in ascending order
}

func (s *memorySet) cost() int64 { return cost(s.name, nil) }

// Add implements [KV].
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

	if s := m.sets[set]; s != nil {
		if e := s.members[member]; e != nil {
			if e.extend(now, ttl) {
				return nil
			}
			m.remove(e)
		}
	}
	if err := m.checkSetLimits(now, set, member, limit); err != nil {
		return err
	}
	s := m.sets[set]
	if s == nil {
		s = &memorySet{name: set, members: make(map[string]*entry, 1)}
		if m.sets == nil {
			m.sets = make(map[string]*memorySet)
		}
		m.sets[set] = s
		m.bytes += s.cost()
	}
	e := &entry{key: member, set: s, due: after(now, ttl)}
	e.expires.Store(e.due)
	s.members[member] = e
	at, _ := slices.BinarySearch(s.order, member)
	s.order = slices.Insert(s.order, at, member)
	m.bytes += e.cost()
	m.due.push(e)
	return nil
}

// checkSetLimits returns ErrFull if a new member would exceed a limit, even after all expired entries are
// removed.
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

// Remove implements [KV].
func (m *memory) Remove(ctx context.Context, set, member string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sets[set]; s != nil {
		if e := s.members[member]; e != nil {
			m.remove(e)
		}
	}
	return nil
}

// List implements [KV].
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
	at, found := slices.BinarySearch(s.order, after)
	if found {
		at++
	}
	var members []string
	for ; at < len(s.order) && len(members) < limit; at++ {
		if member := s.order[at]; s.members[member].expires.Load() > now {
			members = append(members, member)
		}
	}
	return members, nil
}

// leave removes an entry from its set.
func (m *memory) leave(e *entry) {
	s := e.set
	delete(s.members, e.key)
	at, _ := slices.BinarySearch(s.order, e.key)
	s.order = slices.Delete(s.order, at, at+1)
	if len(s.members) == 0 {
		delete(m.sets, s.name)
		m.bytes -= s.cost()
	}
}
