package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/parley-mcp/parley/store"
)

func put(t tb, kv store.KV, key, value string, opt store.PutOptions) uint64 {
	t.Helper()
	version, err := kv.Put(context.Background(), key, []byte(value), opt)
	if err != nil {
		t.Fatalf("Put(%.40q, %.40q, %+v): %v", key, value, opt, err)
	}
	if version == 0 {
		t.Fatalf("Put(%.40q) returned version 0", key)
	}
	return version
}

func get(t tb, kv store.KV, key string) store.Item {
	t.Helper()
	item, err := kv.Get(context.Background(), key)
	if err != nil {
		t.Fatalf("Get(%.40q): %v", key, err)
	}
	return item
}

func wantItem(t tb, kv store.KV, key, value string, version uint64) {
	t.Helper()
	if item := get(t, kv, key); string(item.Value) != value || item.Version != version {
		t.Fatalf("Get(%.40q) = %.40q version %d, want %.40q version %d", key, item.Value, item.Version, value, version)
	}
}

func wantNotFound(t tb, kv store.KV, key string) {
	t.Helper()
	item, err := kv.Get(context.Background(), key)
	wantError(t, "Get", err, store.ErrNotFound)
	if item.Value != nil || item.Version != 0 {
		t.Fatalf("Get(%.40q) failed and returned %+v", key, item)
	}
}

func wantConflict(t tb, kv store.KV, key string, opt store.PutOptions) {
	t.Helper()
	version, err := kv.Put(context.Background(), key, []byte("unwanted"), opt)
	wantError(t, "Put", err, store.ErrConflict)
	if version != 0 {
		t.Fatalf("a conflicting Put returned version %d", version)
	}
}

var kvCases = []testCase[store.KV]{
	{"KeysAndValuesMayHaveAnyBytes", func(t tb, kv store.KV) {
		keys := []string{"a", "A", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "a/b/c/d", "a/b/c}", "a/b/c}/d", "a*", "a?",
			"[a]", "{a}", "{}a", "}a", "{", "}", "a b",
			"a\x00", "a\r\n", "\xff\xfe", "å", "a\u030a", "user/a/b/c/d/e", "user/a/b/c/d/e/f", "user/"}
		for _, key := range keys {
			put(t, kv, key, "value of "+key+"\x00\r\n\xff", store.PutOptions{TTL: forever, IfAbsent: true})
		}
		for _, key := range keys {
			if got := string(get(t, kv, key).Value); got != "value of "+key+"\x00\r\n\xff" {
				t.Errorf("Get(%q) = %q", key, got)
			}
		}
	}},
	{"PutDoesNotRetainValue", func(t tb, kv store.KV) {
		value := []byte("before")
		if _, err := kv.Put(context.Background(), "k", value, store.PutOptions{TTL: forever}); err != nil {
			t.Fatal(err)
		}
		copy(value, "AFTER!")
		if got := string(get(t, kv, "k").Value); got != "before" {
			t.Fatalf("the stored value became %q", got)
		}
	}},
	{"ReturnedValueNeverChanges", func(t tb, kv store.KV) {
		put(t, kv, "k", "first", store.PutOptions{TTL: forever})
		first := get(t, kv, "k").Value
		put(t, kv, "k", "other", store.PutOptions{TTL: forever})
		if err := kv.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		put(t, kv, "k", "third", store.PutOptions{TTL: forever})
		if string(first) != "first" {
			t.Fatalf("the value that Get returned became %q", first)
		}
	}},
	{"PutReplacesValueAndVersion", func(t tb, kv store.KV) {
		v1 := put(t, kv, "k", "same", store.PutOptions{TTL: forever})
		v2 := put(t, kv, "k", "same", store.PutOptions{TTL: forever})
		if v1 == v2 {
			t.Fatalf("two writes have version %d", v1)
		}
		wantItem(t, kv, "k", "same", v2)
	}},
	{"VersionsAreNotReusedAfterDelete", func(t tb, kv store.KV) {
		seen := make(map[uint64]bool)
		for range 5 {
			v := put(t, kv, "k", "same", store.PutOptions{TTL: forever, IfAbsent: true})
			if seen[v] {
				t.Fatalf("version %d was used before the key was deleted", v)
			}
			seen[v] = true
			if err := kv.Delete(context.Background(), "k"); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"IfAbsentConflictsWithExistingKey", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "first", store.PutOptions{TTL: forever, IfAbsent: true})
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfAbsent: true})
		wantItem(t, kv, "k", "first", v)
	}},
	{"IfVersionReplacesOnlyThatVersion", func(t tb, kv store.KV) {
		v1 := put(t, kv, "k", "one", store.PutOptions{TTL: forever})
		v2 := put(t, kv, "k", "two", store.PutOptions{TTL: forever, IfVersion: v1})
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfVersion: v1})
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfVersion: v2 ^ 1<<40})
		wantItem(t, kv, "k", "two", v2)
	}},
	{"IfVersionConflictsWithAbsentKey", func(t tb, kv store.KV) {
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfVersion: 1})
		wantNotFound(t, kv, "k")
		v := put(t, kv, "k", "one", store.PutOptions{TTL: forever})
		if err := kv.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfVersion: v})
		wantNotFound(t, kv, "k")
	}},
	{"DeleteRemovesOneKeyAndIsIdempotent", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		v := put(t, kv, "k/child", "value", store.PutOptions{TTL: forever})
		for range 2 {
			if err := kv.Delete(context.Background(), "k"); err != nil {
				t.Fatal(err)
			}
			wantNotFound(t, kv, "k")
		}
		wantItem(t, kv, "k/child", "value", v)
	}},
	{"TouchOfUnknownKeyIsNotFound", func(t tb, kv store.KV) {
		_, err := kv.Touch(context.Background(), "k", forever)
		wantError(t, "Touch", err, store.ErrNotFound)
		wantNotFound(t, kv, "k")
	}},
	{"InvalidArgumentsReturnErrInvalidArgument", func(t tb, kv store.KV) {
		ctx := context.Background()
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		wantInvalid := func(argument, key string, value []byte, opt store.PutOptions) {
			t.Helper()
			version, err := kv.Put(ctx, key, value, opt)
			if !errors.Is(err, store.ErrInvalidArgument) || version != 0 {
				t.Errorf("Put with %s: got %d, %v, want ErrInvalidArgument", argument, version, err)
			}
		}
		wantInvalid("no time to live", "k", nil, store.PutOptions{})
		wantInvalid("a negative time to live", "k", nil, store.PutOptions{TTL: -1})
		wantInvalid("both conditions", "k", nil, store.PutOptions{TTL: forever, IfAbsent: true, IfVersion: v})
		wantInvalid("an empty key", "", nil, store.PutOptions{TTL: forever})
		wantInvalid("a long key", strings.Repeat("k", maxKey+1), nil, store.PutOptions{TTL: forever})
		wantInvalid("a long value", "k", make([]byte, maxValue+1), store.PutOptions{TTL: forever})
		for _, ttl := range []time.Duration{0, -1} {
			if _, err := kv.Touch(ctx, "k", ttl); !errors.Is(err, store.ErrInvalidArgument) {
				t.Errorf("Touch with a time to live of %v: got %v, want ErrInvalidArgument", ttl, err)
			}
		}
		wantItem(t, kv, "k", "value", v)
	}},
	{"KeyAndValueMayHaveMaximumLength", func(t tb, kv store.KV) {
		key, value := strings.Repeat("k", maxKey), bytes.Repeat([]byte("v"), maxValue)
		if _, err := kv.Put(context.Background(), key, value, store.PutOptions{TTL: forever}); err != nil {
			t.Fatal(err)
		}
		if got := get(t, kv, key).Value; !bytes.Equal(got, value) {
			t.Fatalf("got %d bytes back, want %d", len(got), len(value))
		}
	}},
	{"CancelledContextChangesNothing", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		ctx := cancelled()
		_, err := kv.Get(ctx, "k")
		wantError(t, "Get", err, context.Canceled)
		_, err = kv.Put(ctx, "k", []byte("unwanted"), store.PutOptions{TTL: forever})
		wantError(t, "Put", err, context.Canceled)
		_, err = kv.Touch(ctx, "k", forever)
		wantError(t, "Touch", err, context.Canceled)
		wantError(t, "Delete", kv.Delete(ctx, "k"), context.Canceled)
		wantItem(t, kv, "k", "value", v)
	}},
	{"ValuesOfEveryShortLengthAreKept", func(t tb, kv store.KV) {
		for n := range 40 {
			value := strings.Repeat("\x00", n)
			v := put(t, kv, "k", value, store.PutOptions{TTL: forever})
			wantItem(t, kv, "k", value, v)
			wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfAbsent: true})
		}
	}},
	{"TouchReturnsTheItemAndChangesNothing", func(t tb, kv store.KV) {
		put(t, kv, "k", "old", store.PutOptions{TTL: forever})
		v := put(t, kv, "k", "one", store.PutOptions{TTL: forever})
		item, err := kv.Touch(context.Background(), "k", 2*forever)
		if err != nil || string(item.Value) != "one" || item.Version != v {
			t.Errorf("Touch = %q version %d, %v; want \"one\" version %d", item.Value, item.Version, err, v)
		}
		wantItem(t, kv, "k", "one", v)
		v = put(t, kv, "k", "two", store.PutOptions{TTL: forever, IfVersion: v})
		wantItem(t, kv, "k", "two", v)
	}},
	{"VersionOfAnotherKeyConflicts", func(t tb, kv store.KV) {
		a := put(t, kv, "a", "value", store.PutOptions{TTL: forever})
		b := put(t, kv, "b", "value", store.PutOptions{TTL: forever})
		for range 3 { // some of the versions that a counter for each key gives
			b = put(t, kv, "b", "value", store.PutOptions{TTL: forever, IfVersion: b})
		}
		if a != b {
			wantConflict(t, kv, "a", store.PutOptions{TTL: forever, IfVersion: b})
		}
		wantItem(t, kv, "a", "value", a)
	}},
}

var ttlCases = []testCase[store.KV]{
	{"ItemExistsUntilItExpires", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life/2)
		wantItem(t, kv, "k", "value", v)
		advance(kv, life/2+slack)
		wantNotFound(t, kv, "k")
	}},
	{"PutResetsTimeToLive", func(t tb, kv store.KV) {
		put(t, kv, "longer", "value", store.PutOptions{TTL: life})
		put(t, kv, "shorter", "value", store.PutOptions{TTL: forever})
		put(t, kv, "shorter", "value", store.PutOptions{TTL: life})
		v := put(t, kv, "longer", "value", store.PutOptions{TTL: forever})
		advance(kv, life+slack)
		wantItem(t, kv, "longer", "value", v)
		wantNotFound(t, kv, "shorter")
	}},
	{"TouchExtendsTimeToLive", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: life})
		for range 3 {
			advance(kv, life/2)
			if _, err := kv.Touch(context.Background(), "k", life); err != nil {
				t.Fatal(err)
			}
			wantItem(t, kv, "k", "value", v)
		}
		advance(kv, life+slack)
		wantNotFound(t, kv, "k")
	}},
	{"TouchNeverShortensTimeToLive", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		if _, err := kv.Touch(context.Background(), "k", life); err != nil {
			t.Fatal(err)
		}
		advance(kv, life+slack)
		wantItem(t, kv, "k", "value", v)
	}},
	{"TouchOfExpiredKeyIsNotFound", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		_, err := kv.Touch(context.Background(), "k", forever)
		wantError(t, "Touch", err, store.ErrNotFound)
		wantNotFound(t, kv, "k")
	}},
	{"IfAbsentReplacesExpiredItem", func(t tb, kv store.KV) {
		old := put(t, kv, "k", "old", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		v := put(t, kv, "k", "new", store.PutOptions{TTL: forever, IfAbsent: true})
		if v == old {
			t.Fatalf("version %d was already used before the key expired", v)
		}
		wantItem(t, kv, "k", "new", v)
	}},
	{"IfVersionConflictsWithExpiredItem", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfVersion: v})
		wantNotFound(t, kv, "k")
	}},
	{"ConflictDoesNotExtendTimeToLive", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfAbsent: true})
		advance(kv, life+slack)
		wantNotFound(t, kv, "k")
	}},
	{"MaximumTimeToLiveDoesNotOverflow", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: math.MaxInt64})
		if _, err := kv.Touch(context.Background(), "k", math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		advance(kv, slack)
		wantItem(t, kv, "k", "value", v)
	}},
	{"VersionsAreNotReusedAfterExpiry", func(t tb, kv store.KV) {
		seen := make(map[uint64]bool)
		for range 3 {
			v := put(t, kv, "k", "same", store.PutOptions{TTL: life / 4, IfAbsent: true})
			if seen[v] {
				t.Fatalf("version %d was used before the key expired", v)
			}
			seen[v] = true
			advance(kv, life/4+slack)
		}
	}},
	{"ShortestTimeToLiveIsAccepted", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: 1})
		advance(kv, slack)
		wantNotFound(t, kv, "k")
	}},
}

const kilobyte = 1 << 10

// fill writes entries "k0", "k1" and so on until the KV is full, and returns their number.
func fill(t tb, kv store.KV, ttl time.Duration) int {
	t.Helper()
	for n := range 10_000 {
		version, err := kv.Put(context.Background(), fmt.Sprint("k", n), make([]byte, kilobyte),
			store.PutOptions{TTL: ttl})
		if errors.Is(err, store.ErrFull) {
			if version != 0 {
				t.Fatalf("Put returned version %d and %v", version, err)
			}
			if n < 4 {
				t.Fatalf("the KV was full with %d entries, want at least 4", n)
			}
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("10,000 entries of 1 KiB did not fill the KV")
	return 0
}

var fullCases = []testCase[store.KV]{
	{"FullStoreKeepsExistingItems", func(t tb, kv store.KV) {
		n := fill(t, kv, forever)
		for i := range n {
			if got := get(t, kv, fmt.Sprint("k", i)).Value; len(got) != kilobyte {
				t.Fatalf("k%d is %d bytes long", i, len(got))
			}
		}
		wantNotFound(t, kv, fmt.Sprint("k", n))
		if _, err := kv.Touch(context.Background(), "k0", 2*forever); err != nil {
			t.Fatal(err)
		}
	}},
	{"FullStoreReplacesValueOfEqualSize", func(t tb, kv store.KV) {
		fill(t, kv, forever)
		old := get(t, kv, "k1")
		v := put(t, kv, "k1", strings.Repeat("x", kilobyte), store.PutOptions{TTL: forever, IfVersion: old.Version})
		wantItem(t, kv, "k1", strings.Repeat("x", kilobyte), v)
	}},
	{"ErrConflictTakesPrecedenceOverErrFull", func(t tb, kv store.KV) {
		fill(t, kv, forever)
		wantConflict(t, kv, "k1", store.PutOptions{TTL: forever, IfAbsent: true})
		wantConflict(t, kv, "none", store.PutOptions{TTL: forever, IfVersion: 1})
	}},
	{"DeleteFreesSpace", func(t tb, kv store.KV) {
		n := fill(t, kv, forever)
		// Each round writes a little less than it deletes, because other things may use the
		// memory of the store too. The rounds write more than fits in all.
		some := (n + 3) / 4
		for range 8 {
			for i := range some {
				if err := kv.Delete(context.Background(), fmt.Sprint("k", i)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range some - some/4 {
				put(t, kv, fmt.Sprint("k", i), strings.Repeat("x", kilobyte), store.PutOptions{TTL: forever})
			}
		}
	}},
	{"ExpiryFreesSpace", func(t tb, kv store.KV) {
		n := fill(t, kv, life)
		advance(kv, life+slack)
		for i := range n - n/8 { // other things may use the memory of the store too
			put(t, kv, fmt.Sprint("new", i), strings.Repeat("x", kilobyte-8), store.PutOptions{TTL: forever})
		}
	}},
	{"FullStoreRejectsNewMembersOfSets", func(t tb, kv store.KV) {
		join(t, kv, "s", forever, roomy, "a")
		fill(t, kv, forever)
		for i := 0; ; i++ {
			err := kv.Add(context.Background(), "s", fmt.Sprint("b", i, strings.Repeat("x", kilobyte)), forever, roomy)
			if errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrConflict) {
				break
			}
			if err != nil || i == 10_000 {
				t.Fatalf("Add of member %d: %v, want ErrFull", i, err)
			}
		}
		wantMembersAfter(t, kv, "s", "", 1, "a")
		leave(t, kv, "s", "a")
	}},
}
