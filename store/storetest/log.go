package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/parley-mcp/parley/store"
)

// generous has limits that no test reaches.
var generous = store.AppendOptions{TTL: forever, MaxEntries: 1000, MaxBytes: 1 << 20}

func stream(group, name string) store.StreamKey { return store.StreamKey{Group: group, Stream: name} }

// add appends the entries first to last. Each contains its key and number.
func add(t tb, log store.Log, key store.StreamKey, first, last uint64, opt store.AppendOptions) {
	t.Helper()
	for seq := first; seq <= last; seq++ {
		if err := log.Append(context.Background(), key, seq, entryOf(key, seq), opt); err != nil {
			t.Fatalf("Append(%v, %d): %v", key, seq, err)
		}
	}
}

func entryOf(key store.StreamKey, seq uint64) []byte {
	return fmt.Appendf(nil, "%s/%s/%d", key.Group, key.Stream, seq)
}

// wantAfter checks that ReadAfter returns the entries after+1 to last.
func wantAfter(t tb, log store.Log, key store.StreamKey, after, last uint64) {
	t.Helper()
	got, err := log.ReadAfter(context.Background(), key, after)
	if err != nil {
		t.Fatalf("ReadAfter(%v, %d): %v", key, after, err)
	}
	if len(got) != int(last-after) {
		t.Fatalf("ReadAfter(%v, %d): %d entries, want %d", key, after, len(got), last-after)
	}
	for i, entry := range got {
		if want := entryOf(key, after+1+uint64(i)); !bytes.Equal(entry, want) {
			t.Fatalf("ReadAfter(%v, %d): %.40q at %d, want %q", key, after, entry, i, want)
		}
	}
}

func wantNoRead(t tb, log store.Log, key store.StreamKey, after uint64, want error) {
	t.Helper()
	got, err := log.ReadAfter(context.Background(), key, after)
	wantError(t, fmt.Sprintf("ReadAfter(%v, %d)", key, after), err, want)
	if got != nil {
		t.Fatalf("ReadAfter(%v, %d) failed and returned %d entries", key, after, len(got))
	}
}

var logCases = []testCase[store.Log]{
	{"UnknownStreamIsNotFound", func(t tb, log store.Log) {
		wantNoRead(t, log, stream("g", "s"), 0, store.ErrNotFound)
		add(t, log, stream("g", "other"), 1, 1, generous)
		wantNoRead(t, log, stream("g", "s"), 0, store.ErrNotFound)
	}},
	{"ReadAfterReturnsEntriesInOrder", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 20, generous)
		for after := range uint64(21) {
			wantAfter(t, log, key, after, 20)
		}
		wantNoRead(t, log, key, 21, store.ErrNotFound)
		add(t, log, key, 21, 21, generous)
		wantAfter(t, log, key, 19, 21)
	}},
	{"StreamsAreIndependent", func(t tb, log store.Log) {
		keys := []store.StreamKey{stream("g", "s"), stream("g", "S"), stream("g", "s/"), stream("g/", "s"),
			stream("g/s", "s"), stream("{g}", "\x00*"), stream("h", "s")}
		for seq := uint64(1); seq <= 5; seq++ {
			for _, key := range keys {
				add(t, log, key, seq, seq, generous)
			}
		}
		for _, key := range keys {
			wantAfter(t, log, key, 0, 5)
		}
	}},
	{"EntriesMayHaveAnyBytes", func(t tb, log store.Log) {
		key := stream("g", "s")
		entries := []string{"", "\x00", "\r\n\xff", strings.Repeat("long", 10_000)}
		for i, entry := range entries {
			if err := log.Append(context.Background(), key, uint64(i+1), []byte(entry), generous); err != nil {
				t.Fatal(err)
			}
		}
		got, err := log.ReadAfter(context.Background(), key, 0)
		if err != nil || len(got) != len(entries) {
			t.Fatalf("%d entries, %v", len(got), err)
		}
		for i, entry := range entries {
			if string(got[i]) != entry {
				t.Errorf("entry %d is %.20q, want %.20q", i+1, got[i], entry)
			}
		}
	}},
	{"AppendDoesNotRetainEntry", func(t tb, log store.Log) {
		key := stream("g", "s")
		entry := entryOf(key, 1)
		if err := log.Append(context.Background(), key, 1, entry, generous); err != nil {
			t.Fatal(err)
		}
		copy(entry, "AFTER")
		wantAfter(t, log, key, 0, 1)
	}},
	{"AppendRequiresNextNumber", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 3, generous)
		for _, seq := range []uint64{1, 2, 3, 5, 1 << 40} {
			wantError(t, fmt.Sprint("Append ", seq), log.Append(context.Background(), key, seq, nil, generous),
				store.ErrConflict)
		}
		wantAfter(t, log, key, 0, 3)
	}},
	{"StreamMayStartAtAnyNumber", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 7, 9, generous)
		wantAfter(t, log, key, 6, 9)
		wantNoRead(t, log, key, 5, store.ErrPurged)
		wantNoRead(t, log, key, 0, store.ErrPurged)
	}},
	{"DropDeletesStreamsOfGroup", func(t tb, log store.Log) {
		for range 2 { // the group does not exist yet
			if err := log.Drop(context.Background(), "g"); err != nil {
				t.Fatal(err)
			}
		}
		add(t, log, stream("g", "a"), 1, 3, generous)
		add(t, log, stream("g", "b"), 1, 3, generous)
		add(t, log, stream("g2", "a"), 1, 3, generous)
		if err := log.Drop(context.Background(), "g"); err != nil {
			t.Fatal(err)
		}
		wantNoRead(t, log, stream("g", "a"), 0, store.ErrNotFound)
		wantNoRead(t, log, stream("g", "b"), 3, store.ErrNotFound)
		wantAfter(t, log, stream("g2", "a"), 0, 3)
	}},
	{"InvalidArgumentsReturnErrInvalidArgument", func(t tb, log store.Log) {
		ctx, key := context.Background(), stream("g", "s")
		long := strings.Repeat("k", maxKey+1)
		for name, err := range map[string]error{
			"no group":    log.Append(ctx, stream("", "s"), 1, nil, generous),
			"no stream":   log.Append(ctx, stream("g", ""), 1, nil, generous),
			"long group":  log.Append(ctx, stream(long, "s"), 1, nil, generous),
			"long stream": log.Append(ctx, stream("g", long), 1, nil, generous),
			"number 0":    log.Append(ctx, key, 0, nil, generous),
			"high number": log.Append(ctx, key, maxSeq+1, nil, generous),
			"no TTL":      log.Append(ctx, key, 1, nil, store.AppendOptions{MaxEntries: 1, MaxBytes: 1000}),
			"no entries":  log.Append(ctx, key, 1, nil, store.AppendOptions{TTL: life, MaxBytes: 1000}),
			"no bytes":    log.Append(ctx, key, 1, nil, store.AppendOptions{TTL: life, MaxEntries: 1}),
			"long entry": log.Append(ctx, key, 1, make([]byte, maxValue+1),
				store.AppendOptions{TTL: life, MaxEntries: 1, MaxBytes: 1 << 40}),
		} {
			wantError(t, name, err, store.ErrInvalidArgument)
		}
		wantNoRead(t, log, key, 0, store.ErrNotFound)
	}},
	{"CancelledContextIsReturned", func(t tb, log store.Log) {
		ctx := cancelled()
		_, err := log.ReadAfter(ctx, stream("g", "s"), 0)
		wantError(t, "ReadAfter", err, context.Canceled)
		wantError(t, "Append", log.Append(ctx, stream("g", "s"), 1, nil, generous), context.Canceled)
		wantError(t, "Drop", log.Drop(ctx, "g"), context.Canceled)
	}},
	{"NumbersMayBeHigh", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, maxSeq-2, maxSeq, generous)
		wantAfter(t, log, key, maxSeq-3, maxSeq)
		wantAfter(t, log, key, maxSeq-1, maxSeq)
		wantNoRead(t, log, key, maxSeq-4, store.ErrPurged)
		for _, after := range []uint64{maxSeq + 1, math.MaxUint64 - 1, math.MaxUint64} {
			wantNoRead(t, log, key, after, store.ErrNotFound)
		}
	}},
	{"ReturnedEntriesNeverChange", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 3, generous)
		got, err := log.ReadAfter(context.Background(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Drop(context.Background(), "g"); err != nil {
			t.Fatal(err)
		}
		add(t, log, key, 3, 4, generous)
		wantAfter(t, log, key, 2, 4)
		for i := range got {
			if want := entryOf(key, uint64(i+1)); !bytes.Equal(got[i], want) {
				t.Errorf("entry %d became %q, want %q", i+1, got[i], want)
			}
		}
		if got, err = log.ReadAfter(context.Background(), key, 2); err != nil {
			t.Fatal(err)
		}
		clear(got) // the caller owns the slice
		wantAfter(t, log, key, 2, 4)
	}},
	{"StreamMayHaveManyEntries", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 1000, generous)
		wantAfter(t, log, key, 0, 1000)
		wantAfter(t, log, key, 500, 1000)
		wantAfter(t, log, key, 999, 1000)
	}},
	{"EntryMayHaveMaximumLength", func(t tb, log store.Log) {
		key, opt := stream("g", "s"), generous
		opt.MaxBytes = 2 * maxValue
		entry := bytes.Repeat([]byte("e"), maxValue)
		if err := log.Append(context.Background(), key, 1, entry, opt); err != nil {
			t.Fatal(err)
		}
		got, err := log.ReadAfter(context.Background(), key, 0)
		if err != nil || len(got) != 1 || !bytes.Equal(got[0], entry) {
			t.Fatalf("%d entries, %v; want the entry", len(got), err)
		}
	}},
}

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
		opt.MaxBytes = 10 * (size + logOverhead)
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
		opt.MaxBytes = 1000 + logOverhead
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
		opt.MaxBytes = 5 * logOverhead
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
		opt.MaxBytes = 3 * (logOverhead + int64(len(entryOf(key, 10))))
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
			return int64(len(entryOf(key, seq))) + logOverhead
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
		opt.MaxEntries, opt.MaxBytes = 1, logOverhead
		wantError(t, "Append", log.Append(context.Background(), key, 10, nil, opt), store.ErrConflict)
		wantAfter(t, log, key, 0, 10)
	}},
	{"PurgedBytesAreFreed", func(t tb, log store.Log) {
		a, b, opt := stream("g", "a"), stream("g", "b"), generous
		opt.MaxEntries = 1
		add(t, log, a, 1, 100, opt)
		opt.MaxBytes = logOverhead + int64(len(entryOf(a, 100))) + logOverhead + int64(len(entryOf(b, 1)))
		add(t, log, b, 1, 1, opt)
		wantAfter(t, log, a, 99, 100)
		wantAfter(t, log, b, 0, 1)
	}},
}

var logTTLCases = []testCase[store.Log]{
	{"GroupExistsUntilItExpires", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "a"), 1, 1, short)
		advance(log, life/2)
		add(t, log, stream("g", "b"), 1, 1, short) // extends the life of the whole group
		advance(log, life/2+slack)
		wantAfter(t, log, stream("g", "a"), 0, 1)
		advance(log, life/2)
		wantNoRead(t, log, stream("g", "a"), 0, store.ErrNotFound)
		wantNoRead(t, log, stream("g", "b"), 0, store.ErrNotFound)
		add(t, log, stream("g", "a"), 2, 2, short) // the writer continues its numbers
		wantNoRead(t, log, stream("g", "a"), 0, store.ErrPurged)
		wantAfter(t, log, stream("g", "a"), 1, 2)
	}},
	{"AppendNeverShortensTimeToLive", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "a"), 1, 1, generous)
		add(t, log, stream("g", "a"), 2, 2, short)
		advance(log, life+slack)
		wantAfter(t, log, stream("g", "a"), 0, 2)
	}},
	{"ConflictDoesNotExtendTimeToLiveOfGroup", func(t tb, log store.Log) {
		key, short := stream("g", "s"), generous
		short.TTL = life
		add(t, log, key, 1, 1, short)
		wantError(t, "Append", log.Append(context.Background(), key, 1, nil, generous), store.ErrConflict)
		advance(log, life+slack)
		wantNoRead(t, log, key, 0, store.ErrNotFound)
	}},
	{"GroupsExpireIndependently", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "s"), 1, 1, short)
		add(t, log, stream("h", "s"), 1, 1, generous)
		advance(log, life+slack)
		wantNoRead(t, log, stream("g", "s"), 0, store.ErrNotFound)
		wantAfter(t, log, stream("h", "s"), 0, 1)
	}},
	{"MaximumTimeToLiveOfGroupDoesNotOverflow", func(t tb, log store.Log) {
		opt := generous
		opt.TTL = math.MaxInt64
		add(t, log, stream("g", "s"), 1, 2, opt)
		advance(log, slack)
		wantAfter(t, log, stream("g", "s"), 0, 2)
	}},
}

var sharedCases = []testCase[keysAndStreams]{
	{"KeysAndStreamsAreIndependent", func(t tb, both keysAndStreams) {
		v := put(t, both, "k", "value", store.PutOptions{TTL: forever})
		add(t, both, stream("k", "k"), 1, 3, generous)
		wantItem(t, both, "k", "value", v)
		if err := both.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantAfter(t, both, stream("k", "k"), 0, 3)
	}},
}
