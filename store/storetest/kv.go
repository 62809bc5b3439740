package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	{"UnknownKeyIsNotFound", func(t tb, kv store.KV) {
		wantNotFound(t, kv, "unknown/1")
	}},
	{"GetReturnsLastPut", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		wantItem(t, kv, "k", "value", v)
		wantItem(t, kv, "k", "value", v)
	}},
	{"EmptyValueExists", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "", store.PutOptions{TTL: forever})
		wantItem(t, kv, "k", "", v)
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfAbsent: true})
	}},
	{"KeysAndValuesMayHaveAnyBytes", func(t tb, kv store.KV) {
		keys := []string{"a", "A", "a/", "a/b", "a/b/", "a/b/c", "a/b/c/", "a/b/c/d", "a/b/c}", "a/b/c}/d", "a*", "a?", "[a]", "{a}", "{}a", "}a", "{", "}", "a b",
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
	{"TouchChangesNeitherValueNorVersion", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		if _, err := kv.Touch(context.Background(), "k", 2*forever); err != nil {
			t.Fatal(err)
		}
		wantItem(t, kv, "k", "value", v)
	}},
	{"TouchReturnsCurrentItem", func(t tb, kv store.KV) {
		put(t, kv, "k", "old", store.PutOptions{TTL: forever})
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		item, err := kv.Touch(context.Background(), "k", forever)
		if err != nil || string(item.Value) != "value" || item.Version != v {
			t.Errorf("Touch = %q version %d, %v; want \"value\" version %d", item.Value, item.Version, err, v)
		}
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
		wantInvalid("a long key", strings.Repeat("k", store.MaxKey+1), nil, store.PutOptions{TTL: forever})
		wantInvalid("a long value", "k", make([]byte, store.MaxValue+1), store.PutOptions{TTL: forever})
		for _, ttl := range []time.Duration{0, -1} {
			if _, err := kv.Touch(ctx, "k", ttl); !errors.Is(err, store.ErrInvalidArgument) {
				t.Errorf("Touch with a time to live of %v: got %v, want ErrInvalidArgument", ttl, err)
			}
		}
		wantItem(t, kv, "k", "value", v)
	}},
	{"KeyAndValueMayHaveMaximumLength", func(t tb, kv store.KV) {
		key, value := strings.Repeat("k", store.MaxKey), bytes.Repeat([]byte("v"), store.MaxValue)
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
		}
	}},
	{"UnconditionalPutReplacesAnyItem", func(t tb, kv store.KV) {
		put(t, kv, "k", "one", store.PutOptions{TTL: forever, IfAbsent: true})
		put(t, kv, "k", "two", store.PutOptions{TTL: forever})
		v := put(t, kv, "k", strings.Repeat("long", 1000), store.PutOptions{TTL: forever})
		wantItem(t, kv, "k", strings.Repeat("long", 1000), v)
	}},
	{"TouchKeepsVersionForCompareAndSwap", func(t tb, kv store.KV) {
		v := put(t, kv, "k", "one", store.PutOptions{TTL: forever})
		if _, err := kv.Touch(context.Background(), "k", 2*forever); err != nil {
			t.Fatal(err)
		}
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
	{"ManyKeysAreIndependent", func(t tb, kv store.KV) {
		versions := make([]uint64, 500)
		for i := range versions {
			versions[i] = put(t, kv, fmt.Sprint("user/a/b/c/kind/", i), fmt.Sprint(i), store.PutOptions{TTL: forever, IfAbsent: true})
		}
		for i, v := range versions {
			wantItem(t, kv, fmt.Sprint("user/a/b/c/kind/", i), fmt.Sprint(i), v)
		}
	}},
}
