package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/store"
)

// limits returns options for Append. Without a change, no case reaches the limits.
func limits(change ...func(o *store.AppendOptions)) store.AppendOptions {
	o := store.AppendOptions{TTL: forever, MaxEntries: 1000, MaxBytes: 1 << 20}
	for _, change := range change {
		change(&o)
	}
	return o
}

func maxEntries(n int) func(o *store.AppendOptions) {
	return func(o *store.AppendOptions) { o.MaxEntries = n }
}
func maxBytes(n int64) func(o *store.AppendOptions) {
	return func(o *store.AppendOptions) { o.MaxBytes = n }
}
func groupTTL(d time.Duration) func(o *store.AppendOptions) {
	return func(o *store.AppendOptions) { o.TTL = d }
}

// key returns the key of a stream, such as g:s, which is stream s of group g.
func key(stream string) store.StreamKey {
	group, name, _ := strings.Cut(stream, ":")
	return store.StreamKey{Group: group, Stream: name}
}

// entryOf returns the entry that the cases write: its stream and its number, in a fixed length.
func entryOf(stream string, seq uint64) []byte { return fmt.Appendf(nil, "%s/%016x", stream, seq) }

// sizeOf returns how many bytes n entries count in a stream whose name is 3 bytes long.
func sizeOf(n int64) int64 { return n * (3 + 1 + 16 + logOverhead) }

// write appends the entries first to last.
func write(stream string, first, last uint64, change ...func(o *store.AppendOptions)) step {
	return func(r *run) {
		for seq := first; seq <= last; seq++ {
			r.want(nil, r.log().Append(background, key(stream), seq, entryOf(stream, seq), limits(change...)), "Append",
				stream, seq)
		}
	}
}

// writeFails checks that an entry cannot be appended.
func writeFails(want error, stream string, seq uint64, size int, change ...func(o *store.AppendOptions)) step {
	return func(r *run) {
		r.want(want, r.log().Append(background, key(stream), seq, make([]byte, size), limits(change...)), "Append",
			stream, seq)
	}
}

// read checks that ReadAfter returns the entries after+1 to last.
func read(stream string, after, last uint64) step {
	return func(r *run) {
		r.Helper()
		got, err := r.log().ReadAfter(background, key(stream), after)
		r.want(nil, err, "ReadAfter", stream, after)
		if len(got) != int(last-after) {
			r.Fatalf("ReadAfter(%s, %d): %d entries, want %d", stream, after, len(got), last-after)
		}
		for i, entry := range got {
			if want := entryOf(stream, after+1+uint64(i)); !bytes.Equal(entry, want) {
				r.Fatalf("ReadAfter(%s, %d): %.40q at %d, want %q", stream, after, entry, i, want)
			}
		}
	}
}

func readFails(want error, stream string, after uint64) step {
	return func(r *run) {
		r.Helper()
		got, err := r.log().ReadAfter(background, key(stream), after)
		r.want(want, err, "ReadAfter", stream, after)
		if got != nil {
			r.Fatalf("ReadAfter(%s, %d) failed and returned %d entries", stream, after, len(got))
		}
	}
}

func drop(group string) step {
	return func(r *run) { r.want(nil, r.log().Drop(background, group), "Drop", group) }
}

var logCases = []testCase{
	{"UnknownStreamIsNotFound", []step{readFails(store.ErrNotFound, "g:s", 0), write("g:other", 1, 1),
		readFails(store.ErrNotFound, "g:s", 0)}},
	{"ReadAfterReturnsEntriesInOrder", []step{write("g:s", 1, 20),
		each(20, func(n int) []step { return []step{read("g:s", uint64(n), 20)} }), read("g:s", 20, 20),
		readFails(store.ErrNotFound, "g:s", 21), write("g:s", 21, 1000), read("g:s", 0, 1000), read("g:s", 999, 1000)}},
	{"StreamsAreIndependent", []step{write("a:b/s", 1, 1), write("a/b:s", 1, 2),
		forEach(names, func(name string) []step { return []step{write(name+":n", 1, 3), write("g:"+name, 1, 2)} }),
		forEach(names, func(name string) []step { return []step{read(name+":n", 0, 3), read("g:"+name, 0, 2)} }),
		read("a:b/s", 0, 1), read("a/b:s", 0, 2)}},
	{"EntriesMayHaveAnyBytesAndNeverChange", []step{func(r *run) {
		entries := []string{"", "\x00", "\r\n\xff", strings.Repeat("long", 10_000), strings.Repeat("e", maxValue)}
		big := limits(maxBytes(2 * maxValue))
		for i, entry := range entries {
			copied := []byte(entry)
			r.want(nil, r.log().Append(background, key("g:s"), uint64(i+1), copied, big), "Append", i)
			clear(copied) // the Log does not retain it
		}
		got, err := r.log().ReadAfter(background, key("g:s"), 0)
		r.want(nil, err, "ReadAfter")
		again, err := r.log().ReadAfter(background, key("g:s"), 0)
		r.want(nil, err, "ReadAfter")
		clear(again) // the caller owns the slice
		drop("g")(r)
		write("g:s", 1, 5)(r)
		if !slices.EqualFunc(got, entries, func(got []byte, want string) bool { return string(got) == want }) {
			r.Fatalf("ReadAfter returned %d entries: %.100q", len(got), got)
		}
	}}},
	{"AppendRequiresNextNumber", []step{write("g:s", 1, 3), writeFails(store.ErrConflict, "g:s", 1, 0),
		writeFails(store.ErrConflict, "g:s", 3, 0), writeFails(store.ErrConflict, "g:s", 5, 0),
		writeFails(store.ErrConflict, "g:s", 1<<40, 0), read("g:s", 0, 3)}},
	{"StreamMayStartAtAnyNumber", []step{write("g:s", 7, 9), read("g:s", 6, 9), readFails(store.ErrPurged, "g:s", 5),
		readFails(store.ErrPurged, "g:s", 0), write("h:s", maxSeq-2, maxSeq), read("h:s", maxSeq-3, maxSeq),
		read("h:s", maxSeq-1, maxSeq), readFails(store.ErrPurged, "h:s", maxSeq-4),
		readFails(store.ErrNotFound, "h:s", maxSeq+1), readFails(store.ErrNotFound, "h:s", math.MaxUint64)}},
	{"DropDeletesStreamsOfGroup", []step{times(2, drop("g")), write("g:a", 1, 3), write("g:b", 1, 3),
		write("g2:a", 1, 3), drop("g"), readFails(store.ErrNotFound, "g:a", 0), readFails(store.ErrNotFound, "g:b", 3),
		read("g2:a", 0, 3), write("g:a", 3, 4), readFails(store.ErrPurged, "g:a", 1), read("g:a", 2, 4)}},
	{"InvalidArgumentsChangeNothing", []step{
		writeFails(store.ErrInvalidArgument, ":s", 1, 0), writeFails(store.ErrInvalidArgument, "g:", 1, 0),
		writeFails(store.ErrInvalidArgument, longKey+":s", 1, 0),
		writeFails(store.ErrInvalidArgument, "g:"+longKey, 1, 0),
		writeFails(store.ErrInvalidArgument, "g:s", 0, 0), writeFails(store.ErrInvalidArgument, "g:s", maxSeq+1, 0),
		writeFails(store.ErrInvalidArgument, "g:s", 1, 0, groupTTL(0)),
		writeFails(store.ErrInvalidArgument, "g:s", 1, 0, maxEntries(0)),
		writeFails(store.ErrInvalidArgument, "g:s", 1, 0, maxBytes(0)),
		writeFails(store.ErrInvalidArgument, "g:s", 1, maxValue+1, maxBytes(1<<40)),
		readFails(store.ErrNotFound, "g:s", 0)}},
	{"CancelledContextChangesNothing", []step{write("g:s", 1, 1),
		cancelled(map[string]func(r *run, ctx context.Context) error{
			"ReadAfter": func(r *run, ctx context.Context) error {
				_, err := r.log().ReadAfter(ctx, key("g:s"), 0)
				return err
			},
			"Append": func(r *run, ctx context.Context) error {
				return r.log().Append(ctx, key("g:s"), 2, nil, limits())
			},
			"Drop": func(r *run, ctx context.Context) error { return r.log().Drop(ctx, "g") },
		}), read("g:s", 0, 1)}},
	{"MaxEntriesPurgesOldestOfStream", []step{write("g:s", 1, 10, maxEntries(10)), read("g:s", 0, 10),
		write("g:o", 1, 10, maxEntries(10)), write("g:s", 11, 11, maxEntries(10)), readFails(store.ErrPurged, "g:s", 0),
		read("g:s", 1, 11), read("g:o", 0, 10), write("g:s", 12, 12, maxEntries(3)),
		readFails(store.ErrPurged, "g:s", 8), read("g:s", 9, 12)}},
	{"MaxBytesPurgesOldestOfGroup", []step{write("h:s", 1, 10, maxBytes(sizeOf(10))),
		write("g:a", 1, 2, maxBytes(sizeOf(10))), write("g:b", 1, 8, maxBytes(sizeOf(10))), read("g:a", 0, 2),
		read("g:b", 0, 8), write("g:b", 9, 9, maxBytes(sizeOf(10))), readFails(store.ErrPurged, "g:a", 0),
		read("g:a", 1, 2), write("g:b", 10, 11, maxBytes(sizeOf(10))), readFails(store.ErrNotFound, "g:a", 1),
		readFails(store.ErrPurged, "g:b", 0), read("g:b", 1, 11), read("h:s", 0, 10),
		write("g:b", 12, 12, maxBytes(sizeOf(3))), readFails(store.ErrPurged, "g:b", 8), read("g:b", 9, 12)}},
	{"EntryLargerThanMaxBytesPurgesNothing", []step{write("g:s", 1, 2, maxBytes(sizeOf(2))),
		writeFails(store.ErrFull, "g:s", 3, 1001, maxBytes(1000+logOverhead)), read("g:s", 0, 2),
		writeFails(nil, "g:s", 3, 1000, maxBytes(1000+logOverhead)), readFails(store.ErrPurged, "g:s", 1)}},
	{"ConflictPurgesNothing", []step{write("g:s", 1, 10),
		writeFails(store.ErrConflict, "g:s", 10, 0, maxEntries(1), maxBytes(logOverhead)), read("g:s", 0, 10)}},
	{"EntriesOfTheGroupArePurgedInTheOrderOfTheirAppend", []step{write("g:q", 1, 1, maxEntries(2)),
		write("g:b", 1, 50, maxEntries(2)), read("g:q", 0, 1), read("g:b", 48, 50),
		// The group contains the entries q/1, b/49 and b/50.
		write("g:l", 1, 1, maxBytes(sizeOf(3))), readFails(store.ErrNotFound, "g:q", 0), read("g:b", 48, 50),
		write("g:l", 2, 2, maxBytes(sizeOf(3))), readFails(store.ErrPurged, "g:b", 48), read("g:b", 49, 50),
		read("g:l", 0, 2)}},
	{"GroupExistsUntilItExpires", []step{write("g:a", 1, 1, groupTTL(life)), write("h:a", 1, 1), wait(life / 2),
		write("g:b", 1, 1, groupTTL(life)), // extends the life of the whole group
		wait(life/2 + slack), read("g:a", 0, 1), wait(life / 2), readFails(store.ErrNotFound, "g:a", 0),
		readFails(store.ErrNotFound, "g:b", 0), read("h:a", 0, 1),
		write("g:a", 2, 2), // the writer continues its numbers
		readFails(store.ErrPurged, "g:a", 0), read("g:a", 1, 2)}},
	{"AppendNeverShortensTimeToLive", []step{write("g:a", 1, 1), write("g:a", 2, 2, groupTTL(life)),
		wait(life + slack), read("g:a", 0, 2)}},
	{"ConflictDoesNotExtendTimeToLive", []step{write("g:s", 1, 1, groupTTL(life)),
		writeFails(store.ErrConflict, "g:s", 1, 0), wait(life + slack), readFails(store.ErrNotFound, "g:s", 0)}},
	{"MaximumTimeToLiveDoesNotOverflow", []step{write("g:s", 1, 2, groupTTL(math.MaxInt64)), wait(slack),
		read("g:s", 0, 2)}},
	{"KeysAndStreamsAreIndependent", []step{alsoA[store.KV](put("k", "value"), write("k:k", 1, 3), get("k", "value"),
		remove("k"), read("k:k", 0, 3))}},
}
