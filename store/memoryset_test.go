package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// The test compares the sets of a Memory with a simple model under random sequences of operations, which
// share the limits with items.
func TestMemorySetsMatchModel(t *testing.T) {
	for seed := range uint64(200) {
		compareSets(t, rand.New(rand.NewPCG(seed, 3)), 200)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func compareSets(t *testing.T, r *rand.Rand, operations int) {
	t.Helper()
	const maxEntries, maxMembers = 6, 3
	m := open(store.MemoryOptions{MaxEntries: maxEntries})
	model := make(map[[2]string]time.Time) // the set, "" for items, and the member
	count := func(set string) (inSet, all int) {
		for k, until := range model {
			if until.After(m.Now()) {
				all++
				if k[0] == set {
					inSet++
				}
			}
		}
		return inSet, all
	}
	for range operations {
		set, member, ttl := fmt.Sprint("s", r.IntN(3)), string(rune('a'+r.IntN(5))), time.Duration(1+r.IntN(10))*time.Second
		at := [2]string{set, member}
		live := model[at].After(m.Now())
		switch r.IntN(6) {
		case 0:
			m.Advance(ttl)
		case 1:
			if err := m.Remove(ctx, set, member); err != nil {
				t.Fatal(err)
			}
			delete(model, at)
		case 2:
			_, all := count("")
			item := [2]string{"", member}
			_, err := m.Put(ctx, member, nil, store.PutOptions{TTL: ttl})
			if full := all >= maxEntries && !model[item].After(m.Now()); full != errors.Is(err, store.ErrFull) {
				t.Fatalf("Put with %d entries: %v", all, err)
			}
			if err == nil {
				model[item] = m.Now().Add(ttl)
			}
		default:
			inSet, all := count(set)
			err := m.Add(ctx, set, member, store.AddOptions{TTL: ttl, Max: maxMembers})
			if full := !live && (inSet >= maxMembers || all >= maxEntries); full != errors.Is(err, store.ErrFull) {
				t.Fatalf("Add to a set of %d members with %d entries in all: %v", inSet, all, err)
			}
			if until := m.Now().Add(ttl); err == nil && (!live || until.After(model[at])) {
				model[at] = until
			}
		}
		var want []string
		for k, until := range model {
			if k[0] == set && until.After(m.Now()) {
				want = append(want, k[1])
			}
		}
		slices.Sort(want)
		if got, err := m.List(ctx, set, "", store.MaxList); err != nil || !slices.Equal(got, want) {
			t.Fatalf("List(%s) = %q, %v; the model has %q", set, got, err, want)
		}
	}
}

// The limit in bytes counts members and sets exactly, whatever came and went before.
func TestMemoryCountsBytesOfSets(t *testing.T) {
	const member, set = 160 + 1, 160 + 2 // the documented overhead and the name
	m := open(store.MemoryOptions{MaxBytes: 2*set + 3*member})
	opt := store.AddOptions{TTL: time.Minute, Max: 100}
	add := func(set, member string) error { return m.Add(ctx, set, member, opt) }
	for range 10 {
		for _, at := range [][2]string{{"s1", "a"}, {"s1", "b"}, {"s2", "a"}} {
			if err := add(at[0], at[1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := add("s2", "b"); !errors.Is(err, store.ErrFull) {
			t.Fatalf("Add of one member over the limit: %v, want ErrFull", err)
		}
		if err := errors.Join(m.Remove(ctx, "s1", "a"), m.Remove(ctx, "s1", "b")); err != nil {
			t.Fatal(err)
		}
		m.Advance(time.Hour) // the other set expires
	}
}
