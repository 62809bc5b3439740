package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

func TestFullLogPurgesLeastRecentGroup(t *testing.T) {
	const entry = 10_000
	m := store.NewMemory(store.MemoryOptions{MaxLogBytes: 5 * (entry + store.LogOverhead + 1000)})
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 100, MaxBytes: 1 << 20}
	put := func(group string, seq uint64) {
		t.Helper()
		if err := m.Append(ctx, store.StreamKey{Group: group, Stream: "s"}, seq, make([]byte, entry), opt); err != nil {
			t.Fatal(err)
		}
	}
	wantCount := func(group string, after uint64, want int, wantErr error) {
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
	wantCount("b", 0, 2, nil)
	put("a", 4) // exceeds the limit; b has the least recent append
	wantCount("b", 0, 0, store.ErrPurged)
	wantCount("b", 1, 1, nil)
	put("a", 5)
	wantCount("b", 1, 0, store.ErrNotFound)
	wantCount("a", 0, 5, nil)
	if err := m.Append(ctx, store.StreamKey{Group: "c", Stream: "s"}, 1, make([]byte, 6*entry), opt); !errors.Is(err, store.ErrFull) {
		t.Errorf("Append of an entry larger than the log: %v, want ErrFull", err)
	}
	wantCount("a", 0, 5, nil)
}

// model is a simple Log that the test compares Memory with.
type model struct {
	entries []modelEntry
	last    map[store.StreamKey]uint64
}

type modelEntry struct {
	key  store.StreamKey
	seq  uint64
	size int
}

// purge deletes the oldest entries that match until over returns false.
func (m *model) purge(over func() bool, match func(modelEntry) bool) {
	for over() {
		m.entries = slices.Delete(m.entries, slices.IndexFunc(m.entries, match), slices.IndexFunc(m.entries, match)+1)
	}
}

// size returns the number and the bytes of the entries that match.
func (m *model) size(match func(modelEntry) bool) (n int, bytes int64) {
	for _, e := range m.entries {
		if match(e) {
			n++
			bytes += int64(e.size) + store.LogOverhead
		}
	}
	return n, bytes
}

func TestMemoryLogMatchesModel(t *testing.T) {
	for seed := range uint64(50) {
		compareLog(t, rand.New(rand.NewPCG(seed, 1)).IntN, 300)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// compareLog runs one sequence of operations on a Memory and on the model. Choose returns a number below n.
func compareLog(t *testing.T, choose func(n int) int, operations int) {
	t.Helper()
	opt := store.AppendOptions{TTL: time.Hour, MaxEntries: 6, MaxBytes: 3000}
	m := store.NewMemory(store.MemoryOptions{})
	want := model{last: make(map[store.StreamKey]uint64)}
	for range operations {
		key := store.StreamKey{Group: fmt.Sprint("g", choose(2)), Stream: fmt.Sprint("s", choose(3))}
		if choose(60) == 0 {
			_ = m.Drop(ctx, key.Group)
			want.entries = slices.DeleteFunc(want.entries, func(e modelEntry) bool { return e.key.Group == key.Group })
		}
		want.last[key]++
		seq, size := want.last[key], choose(700)
		if err := m.Append(ctx, key, seq, bytes.Repeat([]byte{byte(seq)}, size), opt); err != nil {
			t.Fatal(err)
		}
		want.entries = append(want.entries, modelEntry{key, seq, size})
		sameStream := func(e modelEntry) bool { return e.key == key }
		sameGroup := func(e modelEntry) bool { return e.key.Group == key.Group }
		want.purge(func() bool { n, _ := want.size(sameStream); return n > opt.MaxEntries }, sameStream)
		want.purge(func() bool { _, b := want.size(sameGroup); return b > opt.MaxBytes }, sameGroup)

		read := store.StreamKey{Group: fmt.Sprint("g", choose(2)), Stream: fmt.Sprint("s", choose(3))}
		var kept []modelEntry
		for _, e := range want.entries {
			if e.key == read {
				kept = append(kept, e)
			}
		}
		after := want.last[read] - uint64(len(kept))
		if len(kept) == 0 {
			if _, err := m.ReadAfter(ctx, read, 0); !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("ReadAfter of %v, which has no entries: %v, want ErrNotFound", read, err)
			}
			continue
		}
		got, err := m.ReadAfter(ctx, read, after)
		if err != nil || len(got) != len(kept) {
			t.Fatalf("%d entries of %v, %v; want %d", len(got), read, err, len(kept))
		}
		for i, e := range kept {
			if !bytes.Equal(got[i], bytes.Repeat([]byte{byte(e.seq)}, e.size)) {
				t.Fatalf("entry %d of %v is %d bytes %.10x", e.seq, read, len(got[i]), got[i])
			}
		}
		if after > 0 {
			if _, err := m.ReadAfter(ctx, read, after-1); !errors.Is(err, store.ErrPurged) {
				t.Fatalf("ReadAfter of %v, which is purged: %v, want ErrPurged", read, err)
			}
		}
	}
}
