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

func TestAFullLogPurgesWhoHasBeenSilentForLongest(t *testing.T) {
	const entry = 10_000
	m := store.NewMemory(store.MemoryOptions{MaxLogBytes: 5 * (entry + store.LogOverhead + 1000)})
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 100, MaxBytes: 1 << 20}
	put := func(group string, seq uint64) {
		t.Helper()
		if err := m.Append(ctx, store.StreamKey{Group: group, Stream: "s"}, seq, make([]byte, entry), opt); err != nil {
			t.Fatal(err)
		}
	}
	held := func(group string, after uint64, want int, wantErr error) {
		t.Helper()
		got, err := m.ReadAfter(ctx, store.StreamKey{Group: group, Stream: "s"}, after)
		if len(got) != want || !errors.Is(err, wantErr) {
			t.Errorf("%s after %d: %d entries, %v; want %d, %v", group, after, len(got), err, want, wantErr)
		}
	}
	put("a", 1)
	put("b", 1)
	put("a", 2)
	put("b", 2)
	put("a", 3)
	held("b", 0, 2, nil)
	put("a", 4) // no room: b has been silent for longest
	held("b", 0, 0, store.ErrPurged)
	held("b", 1, 1, nil)
	put("a", 5)
	held("b", 1, 0, store.ErrNotFound)
	held("a", 0, 5, nil)
	if err := m.Append(ctx, store.StreamKey{Group: "c", Stream: "s"}, 1, make([]byte, 6*entry), opt); !errors.Is(err, store.ErrFull) {
		t.Errorf("an entry that is larger than the log: %v", err)
	}
	held("a", 0, 5, nil)
}

// model is what a log holds, kept in the plainest way.
type model struct {
	entries []modelEntry
	last    map[store.StreamKey]uint64
}

type modelEntry struct {
	key  store.StreamKey
	seq  uint64
	size int
}

func (m *model) purge(over func() bool, victim func(modelEntry) bool) {
	for over() {
		m.entries = slices.Delete(m.entries, slices.IndexFunc(m.entries, victim), slices.IndexFunc(m.entries, victim)+1)
	}
}

func (m *model) held(of func(modelEntry) bool) (n int, bytes int64) {
	for _, e := range m.entries {
		if of(e) {
			n++
			bytes += int64(e.size) + store.LogOverhead
		}
	}
	return n, bytes
}

func TestALogHoldsWhatAPlainOneWould(t *testing.T) {
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 6, MaxBytes: 3000}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := store.NewMemory(store.MemoryOptions{})
		plain := model{last: make(map[store.StreamKey]uint64)}
		for range 300 {
			key := store.StreamKey{Group: fmt.Sprint("g", r.IntN(2)), Stream: fmt.Sprint("s", r.IntN(3))}
			if r.IntN(60) == 0 {
				_ = m.Drop(ctx, key.Group)
				plain.entries = slices.DeleteFunc(plain.entries, func(e modelEntry) bool { return e.key.Group == key.Group })
			}
			plain.last[key]++
			seq, size := plain.last[key], r.IntN(700)
			if err := m.Append(ctx, key, seq, make([]byte, size), opt); err != nil {
				t.Fatal(seed, err)
			}
			plain.entries = append(plain.entries, modelEntry{key, seq, size})
			ofStream := func(e modelEntry) bool { return e.key == key }
			ofGroup := func(e modelEntry) bool { return e.key.Group == key.Group }
			plain.purge(func() bool { n, _ := plain.held(ofStream); return n > opt.MaxEntries }, ofStream)
			plain.purge(func() bool { _, b := plain.held(ofGroup); return b > opt.MaxBytes }, ofGroup)

			asked := store.StreamKey{Group: fmt.Sprint("g", r.IntN(2)), Stream: fmt.Sprint("s", r.IntN(3))}
			n, _ := plain.held(func(e modelEntry) bool { return e.key == asked })
			first := plain.last[asked] - uint64(n)
			if n == 0 {
				if _, err := m.ReadAfter(ctx, asked, 0); !errors.Is(err, store.ErrNotFound) {
					t.Fatalf("seed %d: %v is not held, and reading it returns %v", seed, asked, err)
				}
				continue
			}
			if got, err := m.ReadAfter(ctx, asked, first); err != nil || len(got) != n {
				t.Fatalf("seed %d: %d entries of %v, %v; want %d", seed, len(got), asked, err, n)
			}
			if first > 0 {
				if _, err := m.ReadAfter(ctx, asked, first-1); !errors.Is(err, store.ErrPurged) {
					t.Fatalf("seed %d: what %v has lost: %v", seed, asked, err)
				}
			}
		}
	}
}
