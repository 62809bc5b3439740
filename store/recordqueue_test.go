package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-mcp/parley/internal/must"
)

// queued is a record of a recordQueue as the test remembers it.
type queued struct {
	at     position
	stream uint32
	entry  []byte
}

func TestRecordQueueKeepsTheRecordsThatAreNotRemoved(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		var q recordQueue
		var want []queued
		push := func(stream uint32, entry []byte) {
			want = append(want, queued{q.push(stream, entry, newRecord(entry)), stream, entry})
		}
		for range 1000 {
			switch n := len(want); {
			case n == 0 || random.IntN(100) < 48:
				size := random.IntN(200)
				if random.IntN(50) == 0 {
					size = random.IntN(2 * maxBlock)
				}
				push(uint32(random.IntN(5)), bytes.Repeat([]byte{byte(random.IntN(256))}, size))
			default:
				i := 0
				if random.IntN(2) == 0 {
					i = random.IntN(n)
				}
				q.remove(want[i].at)
				want = append(want[:i], want[i+1:]...)
			}
			if q.wasteful() {
				before := want
				old := q
				q, want = recordQueue{}, nil
				old.all(push)
				if len(want) != len(before) || q.wasteful() {
					t.Fatalf("seed %d: %d records after they were copied, want %d; wasteful: %t", seed, len(want),
						len(before), q.wasteful())
				}
			}
			compareQueue(t, seed, &q, want)
		}
	}
}

func compareQueue(t *testing.T, seed uint64, q *recordQueue, want []queued) {
	t.Helper()
	live := 0
	for _, w := range want {
		live += recordHeader + len(w.entry)
		if got := q.entry(w.at); !bytes.Equal(got, w.entry) || q.stream(w.at) != w.stream {
			t.Fatalf("seed %d: the record at %x has stream %d and %d bytes, want stream %d and %d bytes", seed, w.at,
				q.stream(w.at), len(got), w.stream, len(w.entry))
		}
	}
	var all []queued
	q.all(func(stream uint32, entry []byte) { all = append(all, queued{0, stream, entry}) })
	must.Equal(t, len(all), len(want), seed)
	for i, w := range want {
		if all[i].stream != w.stream || !bytes.Equal(all[i].entry, w.entry) {
			t.Fatalf("seed %d: record %d has stream %d and %d bytes, want stream %d and %d bytes", seed, i,
				all[i].stream, len(all[i].entry), w.stream, len(w.entry))
		}
	}
	if len(want) > 0 && q.oldest() != want[0].at {
		t.Fatalf("seed %d: the oldest record is at %x, want %x", seed, q.oldest(), want[0].at)
	}
	if size := memoryOf(q); q.live != live || q.size != size || size > 2*live+minBlock {
		t.Fatalf("seed %d: the queue counts %d bytes of records and %d of blocks; it has %d and %d", seed, q.live,
			q.size, live, size)
	}
}

// memoryOf returns the size of the blocks of a queue, in bytes.
func memoryOf(q *recordQueue) (size int) {
	for _, b := range q.blocks {
		size += cap(b.data)
	}
	return size
}

// A stream that is silent must not keep the removed entries of a busy one in memory.
func TestRemovedEntriesOfALogDoNotStayInMemory(t *testing.T) {
	m := newMemory(maxBytes, maxLogBytes, time.Now)
	opt := AppendOptions{TTL: time.Hour, MaxEntries: 100, MaxBytes: 1 << 20}
	add := func(stream string, seq uint64) {
		t.Helper()
		if err := m.Append(t.Context(), StreamKey{Group: "group", Stream: stream}, seq, make([]byte, 100),
			opt); err != nil {
			t.Fatal(err)
		}
	}
	add("silent", 1)
	for seq := range uint64(10_000) {
		add("busy", seq+1)
		if seq%100 == 50 {
			add("silent", 2+seq/100)
		}
	}
	if size := memoryOf(&m.log.groups["group"].entries); size > 2*200*(recordHeader+100)+minBlock {
		t.Errorf("the log needs %d bytes for 200 entries of 100 bytes", size)
	}
}

// The garbage collector marks each object. A busy session has tens of thousands of entries.
func TestEntriesOfALogAreNoObjects(t *testing.T) {
	m := newMemory(maxBytes, maxLogBytes, time.Now)
	opt := AppendOptions{TTL: time.Hour, MaxEntries: 10, MaxBytes: 100 << 10}
	names := make([]string, 1000) // each stream is purged before its name is used again
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	next := 0
	add := func() {
		next++
		if err := m.Append(t.Context(), StreamKey{Group: "group", Stream: names[next%len(names)]}, 1, make([]byte, 100),
			opt); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * len(names) {
		add()
	}
	if n := testing.AllocsPerRun(1000, add); n > 0 {
		t.Errorf("an Append allocates %v times, want less than once", n)
	}
	if g := m.log.groups["group"]; len(g.streams) > len(g.numbers)+1 {
		t.Errorf("the log has space for %d streams and needs it for %d", len(g.streams), len(g.numbers))
	}
}

func TestExpiryHeapInvariantHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h expiryHeap
		due := rapid.Int64Range(0, 20)
		onOne := func(change func(t *rapid.T, e *entry)) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(h) > 0 {
					change(t, h[rapid.IntRange(0, len(h)-1).Draw(t, "index")])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for i, e := range h {
					if e.index != i || h[(i-1)/2].due > e.due {
						t.Fatalf("the entry at %d has index %d and is due at %d, its parent at %d", i, e.index, e.due,
							h[(i-1)/2].due)
					}
				}
			},
			"push":     func(t *rapid.T) { h.push(&entry{due: due.Draw(t, "due")}) },
			"remove":   onOne(func(t *rapid.T, e *entry) { h.remove(e) }),
			"advance":  onOne(func(t *rapid.T, e *entry) { h.advance(e, e.due-due.Draw(t, "by")) }),
			"postpone": onOne(func(t *rapid.T, e *entry) { h.postpone(e, e.due+due.Draw(t, "by")) }),
		})
	})
}
