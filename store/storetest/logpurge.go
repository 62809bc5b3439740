package storetest

import (
	"context"

	"github.com/parley-mcp/parley/store"
)

var purgeCases = []testCase[store.Log]{
	{"MaxEntriesPurgesOldestOfStream", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		opt.MaxEntries = 10
		add(t, log, key, 1, 10, opt)
		wantAfter(t, log, key, 0, 10)
		add(t, log, stream("g", "other"), 1, 10, opt)
		add(t, log, key, 11, 11, opt)
		wantNoRead(t, log, key, 0, store.ErrPurged)
		wantAfter(t, log, key, 1, 11)
		wantAfter(t, log, stream("g", "other"), 0, 10)
	}},
	{"MaxBytesPurgesOldestOfGroup", func(t tb, log store.Log) {
		opt := generous
		const size = 1000
		opt.MaxBytes = 10 * (size + store.LogOverhead)
		old, recent, other := stream("g", "old"), stream("g", "recent"), stream("h", "s")
		appendAll := func(key store.StreamKey, first, last uint64) {
			t.Helper()
			for seq := first; seq <= last; seq++ {
				if err := log.Append(context.Background(), key, seq, make([]byte, size), opt); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantCount := func(key store.StreamKey, after uint64, want int) {
			t.Helper()
			if got, err := log.ReadAfter(context.Background(), key, after); err != nil || len(got) != want {
				t.Fatalf("ReadAfter(%v, %d): %d entries, %v; want %d", key, after, len(got), err, want)
			}
		}
		appendAll(other, 1, 10)
		appendAll(old, 1, 2)
		appendAll(recent, 1, 8)
		wantCount(old, 0, 2)
		wantCount(recent, 0, 8)
		appendAll(recent, 9, 9)
		wantNoRead(t, log, old, 0, store.ErrPurged)
		wantCount(old, 1, 1)
		appendAll(recent, 10, 11)
		wantNoRead(t, log, old, 1, store.ErrNotFound)
		wantNoRead(t, log, recent, 0, store.ErrPurged)
		wantCount(recent, 1, 10)
		wantCount(other, 0, 10)
	}},
	{"EntryLargerThanMaxBytesPurgesNothing", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		opt.MaxBytes = 1000 + store.LogOverhead
		add(t, log, key, 1, 2, opt)
		wantError(t, "Append", log.Append(context.Background(), key, 3, make([]byte, 1001), opt), store.ErrFull)
		wantAfter(t, log, key, 0, 2)
		if err := log.Append(context.Background(), key, 3, make([]byte, 1000), opt); err != nil {
			t.Fatal(err)
		}
		wantNoRead(t, log, key, 1, store.ErrPurged)
	}},
	{"EmptyEntriesCountTheOverhead", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		opt.MaxBytes = 5 * store.LogOverhead
		for seq := uint64(1); seq <= 6; seq++ {
			if err := log.Append(context.Background(), key, seq, nil, opt); err != nil {
				t.Fatal(err)
			}
		}
		wantNoRead(t, log, key, 0, store.ErrPurged)
		if got, err := log.ReadAfter(context.Background(), key, 1); err != nil || len(got) != 5 {
			t.Fatalf("%d entries, %v; want 5", len(got), err)
		}
	}},
	{"LowerMaxEntriesPurgesMoreEntries", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		add(t, log, key, 1, 10, opt)
		opt.MaxEntries = 3
		add(t, log, key, 11, 11, opt)
		wantNoRead(t, log, key, 7, store.ErrPurged)
		wantAfter(t, log, key, 8, 11)
	}},
	{"LowerMaxBytesPurgesMoreEntries", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		add(t, log, key, 1, 10, opt)
		opt.MaxBytes = 3 * (store.LogOverhead + int64(len(entryOf(key, 10))))
		add(t, log, key, 11, 11, opt)
		wantNoRead(t, log, key, 7, store.ErrPurged)
		wantAfter(t, log, key, 8, 11)
	}},
	{"QuietStreamKeepsEntriesWhileAnotherIsPurged", func(t tb, log store.Log) {
		quiet, busy, opt := stream("g", "quiet"), stream("g", "busy"), generous
		opt.MaxEntries = 2
		add(t, log, quiet, 1, 1, opt)
		add(t, log, busy, 1, 50, opt)
		wantAfter(t, log, quiet, 0, 1)
		wantAfter(t, log, busy, 48, 50)

		// The group has entries quiet/1, busy/49 and busy/50. They are purged in this order.
		size := func(key store.StreamKey, seq uint64) int64 {
			return int64(len(entryOf(key, seq))) + store.LogOverhead
		}
		last := stream("g", "last")
		opt.MaxBytes = size(busy, 49) + size(busy, 50) + size(last, 1)
		add(t, log, last, 1, 1, opt)
		wantNoRead(t, log, quiet, 0, store.ErrNotFound)
		wantAfter(t, log, busy, 48, 50)
		opt.MaxBytes = size(busy, 50) + size(last, 1) + size(last, 2)
		add(t, log, last, 2, 2, opt)
		wantNoRead(t, log, busy, 48, store.ErrPurged)
		wantAfter(t, log, busy, 49, 50)
		wantAfter(t, log, last, 0, 2)
	}},
	{"ConflictPurgesNothing", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		add(t, log, key, 1, 10, opt)
		opt.MaxEntries, opt.MaxBytes = 1, store.LogOverhead
		wantError(t, "Append", log.Append(context.Background(), key, 10, nil, opt), store.ErrConflict)
		wantAfter(t, log, key, 0, 10)
	}},
	{"PurgedBytesAreFreed", func(t tb, log store.Log) {
		a, b, opt := stream("g", "a"), stream("g", "b"), generous
		opt.MaxEntries = 1
		add(t, log, a, 1, 100, opt)
		opt.MaxBytes = store.LogOverhead + int64(len(entryOf(a, 100))) + store.LogOverhead + int64(len(entryOf(b, 1)))
		add(t, log, b, 1, 1, opt)
		wantAfter(t, log, a, 99, 100)
		wantAfter(t, log, b, 0, 1)
	}},
}
