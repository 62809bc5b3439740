package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/store"
)

// roomy are bounds for the tests that do not care about them.
var roomy = store.AppendOptions{TTL: forever, MaxEntries: 1000, MaxBytes: 1 << 20}

func stream(group, name string) store.StreamKey { return store.StreamKey{Group: group, Stream: name} }

// add appends entries that say which they are.
func add(t *testing.T, s store.Store, key store.StreamKey, first, last uint64, opt store.AppendOptions) {
	t.Helper()
	for seq := first; seq <= last; seq++ {
		if err := s.Append(context.Background(), key, seq, entryOf(key, seq), opt); err != nil {
			t.Fatalf("Append(%v, %d): %v", key, seq, err)
		}
	}
}

func entryOf(key store.StreamKey, seq uint64) []byte {
	return fmt.Appendf(nil, "%s/%s/%d", key.Group, key.Stream, seq)
}

// wantAfter wants the entries that follow number after, up to last.
func wantAfter(t *testing.T, s store.Store, key store.StreamKey, after, last uint64) {
	t.Helper()
	got, err := s.ReadAfter(context.Background(), key, after)
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

func wantNoRead(t *testing.T, s store.Store, key store.StreamKey, after uint64, want error) {
	t.Helper()
	got, err := s.ReadAfter(context.Background(), key, after)
	wantError(t, fmt.Sprintf("ReadAfter(%v, %d)", key, after), err, want)
	if got != nil {
		t.Fatalf("ReadAfter(%v, %d) failed and returned %d entries", key, after, len(got))
	}
}

var logCases = []testCase{
	{"AnUnknownStreamIsNotFound", func(t *testing.T, s store.Store) {
		wantNoRead(t, s, stream("g", "s"), 0, store.ErrNotFound)
		add(t, s, stream("g", "other"), 1, 1, roomy)
		wantNoRead(t, s, stream("g", "s"), 0, store.ErrNotFound)
	}},
	{"EntriesAreReadInOrderFromAnywhere", func(t *testing.T, s store.Store) {
		key := stream("g", "s")
		add(t, s, key, 1, 20, roomy)
		for after := range uint64(21) {
			wantAfter(t, s, key, after, 20)
		}
		wantNoRead(t, s, key, 21, store.ErrNotFound)
		add(t, s, key, 21, 21, roomy)
		wantAfter(t, s, key, 19, 21)
	}},
	{"StreamsDoNotMix", func(t *testing.T, s store.Store) {
		keys := []store.StreamKey{stream("g", "s"), stream("g", "S"), stream("g", "s/"), stream("g/", "s"), stream("g/s", "s"), stream("{g}", "\x00*"), stream("h", "s")}
		for seq := uint64(1); seq <= 5; seq++ {
			for _, key := range keys {
				add(t, s, key, seq, seq, roomy)
			}
		}
		for _, key := range keys {
			wantAfter(t, s, key, 0, 5)
		}
	}},
	{"ValuesAndStreamsDoNotMix", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		add(t, s, stream("k", "k"), 1, 3, roomy)
		wantItem(t, s, "k", "value", v)
		if err := s.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantAfter(t, s, stream("k", "k"), 0, 3)
	}},
	{"EntriesAreBytes", func(t *testing.T, s store.Store) {
		key := stream("g", "s")
		entries := []string{"", "\x00", "\r\n\xff", strings.Repeat("long", 10_000)}
		for i, entry := range entries {
			if err := s.Append(context.Background(), key, uint64(i+1), []byte(entry), roomy); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.ReadAfter(context.Background(), key, 0)
		if err != nil || len(got) != len(entries) {
			t.Fatalf("%d entries, %v", len(got), err)
		}
		for i, entry := range entries {
			if string(got[i]) != entry {
				t.Errorf("entry %d is %.20q, want %.20q", i+1, got[i], entry)
			}
		}
	}},
	{"AppendKeepsNoReferenceToItsArgument", func(t *testing.T, s store.Store) {
		key := stream("g", "s")
		entry := entryOf(key, 1)
		if err := s.Append(context.Background(), key, 1, entry, roomy); err != nil {
			t.Fatal(err)
		}
		copy(entry, "AFTER")
		wantAfter(t, s, key, 0, 1)
	}},
	{"NumbersFollowEachOther", func(t *testing.T, s store.Store) {
		key := stream("g", "s")
		add(t, s, key, 1, 3, roomy)
		for _, seq := range []uint64{1, 2, 3, 5, 1 << 40} {
			wantError(t, fmt.Sprint("Append ", seq), s.Append(context.Background(), key, seq, nil, roomy), store.ErrConflict)
		}
		wantAfter(t, s, key, 0, 3)
	}},
	{"AStreamMayBeginAnywhere", func(t *testing.T, s store.Store) {
		key := stream("g", "s")
		add(t, s, key, 7, 9, roomy)
		wantAfter(t, s, key, 6, 9)
		wantNoRead(t, s, key, 5, store.ErrPurged)
		wantNoRead(t, s, key, 0, store.ErrPurged)
	}},
	{"TheOldestOfAStreamArePurged", func(t *testing.T, s store.Store) {
		key, opt := stream("g", "s"), roomy
		opt.MaxEntries = 10
		add(t, s, key, 1, 10, opt)
		wantAfter(t, s, key, 0, 10)
		add(t, s, stream("g", "other"), 1, 10, opt)
		add(t, s, key, 11, 11, opt)
		wantNoRead(t, s, key, 0, store.ErrPurged)
		wantAfter(t, s, key, 1, 11)
		wantAfter(t, s, stream("g", "other"), 0, 10)
	}},
	{"TheOldestOfAGroupArePurged", func(t *testing.T, s store.Store) {
		opt := roomy
		const size = 1000
		opt.MaxBytes = 10 * (size + store.LogOverhead)
		quiet, loud, foreign := stream("g", "quiet"), stream("g", "loud"), stream("h", "s")
		appendAll := func(key store.StreamKey, first, last uint64) {
			t.Helper()
			for seq := first; seq <= last; seq++ {
				if err := s.Append(context.Background(), key, seq, make([]byte, size), opt); err != nil {
					t.Fatal(err)
				}
			}
		}
		held := func(key store.StreamKey, after uint64, want int) {
			t.Helper()
			if got, err := s.ReadAfter(context.Background(), key, after); err != nil || len(got) != want {
				t.Fatalf("ReadAfter(%v, %d): %d entries, %v; want %d", key, after, len(got), err, want)
			}
		}
		appendAll(foreign, 1, 10)
		appendAll(quiet, 1, 2)
		appendAll(loud, 1, 8)
		held(quiet, 0, 2)
		held(loud, 0, 8)
		appendAll(loud, 9, 9)
		wantNoRead(t, s, quiet, 0, store.ErrPurged)
		held(quiet, 1, 1)
		appendAll(loud, 10, 11)
		wantNoRead(t, s, quiet, 1, store.ErrNotFound)
		wantNoRead(t, s, loud, 0, store.ErrPurged)
		held(loud, 1, 10)
		held(foreign, 0, 10)
	}},
	{"AnEntryBeyondTheBoundPurgesNothing", func(t *testing.T, s store.Store) {
		key, opt := stream("g", "s"), roomy
		opt.MaxBytes = 1000 + store.LogOverhead
		add(t, s, key, 1, 2, opt)
		wantError(t, "Append", s.Append(context.Background(), key, 3, make([]byte, 1001), opt), store.ErrFull)
		wantAfter(t, s, key, 0, 2)
		if err := s.Append(context.Background(), key, 3, make([]byte, 1000), opt); err != nil {
			t.Fatal(err)
		}
		wantNoRead(t, s, key, 1, store.ErrPurged)
	}},
	{"DropEndsTheStreamsOfAGroup", func(t *testing.T, s store.Store) {
		for range 2 { // that there are none is no error
			if err := s.Drop(context.Background(), "g"); err != nil {
				t.Fatal(err)
			}
		}
		add(t, s, stream("g", "a"), 1, 3, roomy)
		add(t, s, stream("g", "b"), 1, 3, roomy)
		add(t, s, stream("g2", "a"), 1, 3, roomy)
		if err := s.Drop(context.Background(), "g"); err != nil {
			t.Fatal(err)
		}
		wantNoRead(t, s, stream("g", "a"), 0, store.ErrNotFound)
		wantNoRead(t, s, stream("g", "b"), 3, store.ErrNotFound)
		wantAfter(t, s, stream("g2", "a"), 0, 3)
	}},
	{"AGroupIsThereUntilItExpires", func(t *testing.T, s store.Store) {
		short := roomy
		short.TTL = life
		add(t, s, stream("g", "a"), 1, 1, short)
		advance(s, life/2)
		add(t, s, stream("g", "b"), 1, 1, short) // the whole group lives anew
		advance(s, life/2+slack)
		wantAfter(t, s, stream("g", "a"), 0, 1)
		advance(s, life/2)
		wantNoRead(t, s, stream("g", "a"), 0, store.ErrNotFound)
		wantNoRead(t, s, stream("g", "b"), 0, store.ErrNotFound)
		add(t, s, stream("g", "a"), 2, 2, short) // its writer goes on
		wantNoRead(t, s, stream("g", "a"), 0, store.ErrPurged)
		wantAfter(t, s, stream("g", "a"), 1, 2)
	}},
	{"AnAppendNeverShortensALife", func(t *testing.T, s store.Store) {
		short := roomy
		short.TTL = life
		add(t, s, stream("g", "a"), 1, 1, roomy)
		add(t, s, stream("g", "a"), 2, 2, short)
		advance(s, life+slack)
		wantAfter(t, s, stream("g", "a"), 0, 2)
	}},
	{"ReadingDoesNotExtend", func(t *testing.T, s store.Store) {
		short := roomy
		short.TTL = life
		add(t, s, stream("g", "a"), 1, 1, short)
		advance(s, life/2)
		wantAfter(t, s, stream("g", "a"), 0, 1)
		advance(s, life/2+slack)
		wantNoRead(t, s, stream("g", "a"), 0, store.ErrNotFound)
	}},
	{"UnusableArgumentsOfALogAreRefused", func(t *testing.T, s store.Store) {
		ctx, key := context.Background(), stream("g", "s")
		long := strings.Repeat("k", store.MaxKey+1)
		for name, err := range map[string]error{
			"no group":    s.Append(ctx, stream("", "s"), 1, nil, roomy),
			"no stream":   s.Append(ctx, stream("g", ""), 1, nil, roomy),
			"long group":  s.Append(ctx, stream(long, "s"), 1, nil, roomy),
			"long stream": s.Append(ctx, stream("g", long), 1, nil, roomy),
			"number 0":    s.Append(ctx, key, 0, nil, roomy),
			"no life":     s.Append(ctx, key, 1, nil, store.AppendOptions{MaxEntries: 1, MaxBytes: 1000}),
			"no entries":  s.Append(ctx, key, 1, nil, store.AppendOptions{TTL: life, MaxBytes: 1000}),
			"no bytes":    s.Append(ctx, key, 1, nil, store.AppendOptions{TTL: life, MaxEntries: 1}),
			"long entry":  s.Append(ctx, key, 1, make([]byte, store.MaxValue+1), store.AppendOptions{TTL: life, MaxEntries: 1, MaxBytes: 1 << 40}),
		} {
			wantError(t, name, err, store.ErrInvalid)
		}
		wantNoRead(t, s, key, 0, store.ErrNotFound)
	}},
	{"AnEndedContextEndsALogsMethods", func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := s.ReadAfter(ctx, stream("g", "s"), 0)
		wantError(t, "ReadAfter", err, context.Canceled)
		wantError(t, "Append", s.Append(ctx, stream("g", "s"), 1, nil, roomy), context.Canceled)
		wantError(t, "Drop", s.Drop(ctx, "g"), context.Canceled)
	}},
	{"StreamsAreWrittenAtTheSameTime", func(t *testing.T, s store.Store) {
		var writing sync.WaitGroup
		for i := range 8 {
			key := stream(fmt.Sprint("g", i%2), fmt.Sprint("s", i))
			writing.Go(func() {
				for seq := uint64(1); seq <= 50; seq++ {
					if err := s.Append(context.Background(), key, seq, entryOf(key, seq), roomy); err != nil {
						t.Errorf("Append(%v, %d): %v", key, seq, err)
					}
					if _, err := s.ReadAfter(context.Background(), key, seq-1); err != nil {
						t.Errorf("ReadAfter(%v, %d): %v", key, seq-1, err)
					}
				}
			})
		}
		writing.Wait()
		for i := range 8 {
			wantAfter(t, s, stream(fmt.Sprint("g", i%2), fmt.Sprint("s", i)), 0, 50)
		}
	}},
	{"OneOfTwoWritersOfANumberSucceeds", func(t *testing.T, s store.Store) {
		key := stream("g", "s")
		add(t, s, key, 1, 1, roomy)
		var wrote sync.Map
		var writing sync.WaitGroup
		for i := range 8 {
			writing.Go(func() {
				err := s.Append(context.Background(), key, 2, entryOf(key, 2), roomy)
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
			t.Errorf("%d writers of one number succeeded", n)
		}
		wantAfter(t, s, key, 0, 2)
	}},
}
