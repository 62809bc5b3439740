package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

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
		keys := []store.StreamKey{stream("g", "s"), stream("g", "S"), stream("g", "s/"), stream("g/", "s"), stream("g/s", "s"), stream("{g}", "\x00*"), stream("h", "s")}
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
			wantError(t, fmt.Sprint("Append ", seq), log.Append(context.Background(), key, seq, nil, generous), store.ErrConflict)
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
		long := strings.Repeat("k", store.MaxKey+1)
		for name, err := range map[string]error{
			"no group":    log.Append(ctx, stream("", "s"), 1, nil, generous),
			"no stream":   log.Append(ctx, stream("g", ""), 1, nil, generous),
			"long group":  log.Append(ctx, stream(long, "s"), 1, nil, generous),
			"long stream": log.Append(ctx, stream("g", long), 1, nil, generous),
			"number 0":    log.Append(ctx, key, 0, nil, generous),
			"high number": log.Append(ctx, key, store.MaxSeq+1, nil, generous),
			"no TTL":      log.Append(ctx, key, 1, nil, store.AppendOptions{MaxEntries: 1, MaxBytes: 1000}),
			"no entries":  log.Append(ctx, key, 1, nil, store.AppendOptions{TTL: life, MaxBytes: 1000}),
			"no bytes":    log.Append(ctx, key, 1, nil, store.AppendOptions{TTL: life, MaxEntries: 1}),
			"long entry":  log.Append(ctx, key, 1, make([]byte, store.MaxValue+1), store.AppendOptions{TTL: life, MaxEntries: 1, MaxBytes: 1 << 40}),
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
		add(t, log, key, store.MaxSeq-2, store.MaxSeq, generous)
		wantAfter(t, log, key, store.MaxSeq-3, store.MaxSeq)
		wantAfter(t, log, key, store.MaxSeq-1, store.MaxSeq)
		wantNoRead(t, log, key, store.MaxSeq-4, store.ErrPurged)
		for _, after := range []uint64{store.MaxSeq + 1, math.MaxUint64 - 1, math.MaxUint64} {
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
		if err := log.Append(context.Background(), key, 1, []byte("other"), generous); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if want := entryOf(key, uint64(i+1)); !bytes.Equal(got[i], want) {
				t.Errorf("entry %d became %q, want %q", i+1, got[i], want)
			}
		}
	}},
	{"CallerOwnsReturnedSlice", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 3, generous)
		got, err := log.ReadAfter(context.Background(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		wantAfter(t, log, key, 0, 3)
	}},
	{"DroppedStreamMayStartAgain", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 5, generous)
		if err := log.Drop(context.Background(), "g"); err != nil {
			t.Fatal(err)
		}
		add(t, log, key, 3, 4, generous)
		wantAfter(t, log, key, 2, 4)
		wantNoRead(t, log, key, 0, store.ErrPurged)
	}},
	{"GroupMayHaveManyStreams", func(t tb, log store.Log) {
		const n = 200
		for i := range n {
			add(t, log, stream("g", fmt.Sprint(i)), 1, 2, generous)
		}
		for i := range n {
			wantAfter(t, log, stream("g", fmt.Sprint(i)), 0, 2)
		}
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
		opt.MaxBytes = 2 * store.MaxValue
		entry := bytes.Repeat([]byte("e"), store.MaxValue)
		if err := log.Append(context.Background(), key, 1, entry, opt); err != nil {
			t.Fatal(err)
		}
		got, err := log.ReadAfter(context.Background(), key, 0)
		if err != nil || len(got) != 1 || !bytes.Equal(got[0], entry) {
			t.Fatalf("%d entries, %v; want the entry", len(got), err)
		}
	}},
	{"StreamsCanBeUsedConcurrently", func(t tb, log store.Log) {
		var writing sync.WaitGroup
		for i := range 8 {
			key := stream(fmt.Sprint("g", i%2), fmt.Sprint("s", i))
			writing.Go(func() {
				for seq := uint64(1); seq <= 50; seq++ {
					if err := log.Append(context.Background(), key, seq, entryOf(key, seq), generous); err != nil {
						t.Errorf("Append(%v, %d): %v", key, seq, err)
					}
					if _, err := log.ReadAfter(context.Background(), key, seq-1); err != nil {
						t.Errorf("ReadAfter(%v, %d): %v", key, seq-1, err)
					}
				}
			})
		}
		writing.Wait()
		for i := range 8 {
			wantAfter(t, log, stream(fmt.Sprint("g", i%2), fmt.Sprint("s", i)), 0, 50)
		}
	}},
	{"OnlyOneConcurrentAppendOfNumberSucceeds", func(t tb, log store.Log) {
		key := stream("g", "s")
		add(t, log, key, 1, 1, generous)
		var wrote sync.Map
		var writing sync.WaitGroup
		for i := range 8 {
			writing.Go(func() {
				err := log.Append(context.Background(), key, 2, entryOf(key, 2), generous)
				if err == nil {
					wrote.Store(i, true)
				} else if !errors.Is(err, store.ErrConflict) {
					t.Error(err)
				}
			})
		}
		writing.Wait()
		n := 0
		wrote.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d writers of the same number succeeded, want 1", n)
		}
		wantAfter(t, log, key, 0, 2)
	}},
}
