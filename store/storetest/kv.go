package storetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

func wantError(t *testing.T, op string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", op, err, want)
	}
}

func wantConflict(t *testing.T, s store.Store, key string, opt store.PutOptions) {
	t.Helper()
	version, err := s.Put(context.Background(), key, []byte("unwanted"), opt)
	wantError(t, "Put", err, store.ErrConflict)
	if version != 0 {
		t.Fatalf("a conflicting Put returned version %d", version)
	}
}

var kvCases = []testCase{
	{"AnUnknownKeyIsNotFound", func(t *testing.T, s store.Store) {
		wantGone(t, s, "nobody/1")
	}},
	{"GetReturnsWhatWasPut", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		wantItem(t, s, "k", "value", v)
		wantItem(t, s, "k", "value", v)
	}},
	{"AnEmptyValueIsAValue", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "", store.PutOptions{TTL: forever})
		wantItem(t, s, "k", "", v)
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfAbsent: true})
	}},
	{"KeysAndValuesAreBytes", func(t *testing.T, s store.Store) {
		keys := []string{"a", "A", "a/", "a/b", "a/b/", "a*", "a?", "[a]", "{a}", "a b", "a\x00", "a\r\n", "\xff\xfe", "å", "a\u030a"}
		for _, key := range keys {
			put(t, s, key, "value of "+key+"\x00\r\n\xff", store.PutOptions{TTL: forever, IfAbsent: true})
		}
		for _, key := range keys {
			if got := string(get(t, s, key).Value); got != "value of "+key+"\x00\r\n\xff" {
				t.Errorf("Get(%q) = %q", key, got)
			}
		}
	}},
	{"PutKeepsNoReferenceToItsArgument", func(t *testing.T, s store.Store) {
		value := []byte("before")
		if _, err := s.Put(context.Background(), "k", value, store.PutOptions{TTL: forever}); err != nil {
			t.Fatal(err)
		}
		copy(value, "AFTER!")
		if got := string(get(t, s, "k").Value); got != "before" {
			t.Fatalf("the stored value became %q", got)
		}
	}},
	{"AReturnedValueNeverChanges", func(t *testing.T, s store.Store) {
		put(t, s, "k", "first", store.PutOptions{TTL: forever})
		first := get(t, s, "k").Value
		put(t, s, "k", "other", store.PutOptions{TTL: forever})
		if err := s.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		put(t, s, "k", "third", store.PutOptions{TTL: forever})
		if string(first) != "first" {
			t.Fatalf("the value that Get returned became %q", first)
		}
	}},
	{"PutReplacesAndGivesANewVersion", func(t *testing.T, s store.Store) {
		v1 := put(t, s, "k", "same", store.PutOptions{TTL: forever})
		v2 := put(t, s, "k", "same", store.PutOptions{TTL: forever})
		if v1 == v2 {
			t.Fatalf("two writes have version %d", v1)
		}
		wantItem(t, s, "k", "same", v2)
	}},
	{"VersionsDoNotReturnAfterDeletion", func(t *testing.T, s store.Store) {
		seen := make(map[uint64]bool)
		for range 5 {
			v := put(t, s, "k", "same", store.PutOptions{TTL: forever, IfAbsent: true})
			if seen[v] {
				t.Fatalf("version %d was used before the key was deleted", v)
			}
			seen[v] = true
			if err := s.Delete(context.Background(), "k"); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{"IfAbsentWritesOnce", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "first", store.PutOptions{TTL: forever, IfAbsent: true})
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfAbsent: true})
		wantItem(t, s, "k", "first", v)
	}},
	{"IfVersionReplacesExactlyThatVersion", func(t *testing.T, s store.Store) {
		v1 := put(t, s, "k", "one", store.PutOptions{TTL: forever})
		v2 := put(t, s, "k", "two", store.PutOptions{TTL: forever, IfVersion: v1})
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfVersion: v1})
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfVersion: v2 ^ 1<<40})
		wantItem(t, s, "k", "two", v2)
	}},
	{"IfVersionOfAnAbsentKeyConflicts", func(t *testing.T, s store.Store) {
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfVersion: 1})
		wantGone(t, s, "k")
		v := put(t, s, "k", "one", store.PutOptions{TTL: forever})
		if err := s.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfVersion: v})
		wantGone(t, s, "k")
	}},
	{"DeleteRemovesOneKeyAndIsIdempotent", func(t *testing.T, s store.Store) {
		put(t, s, "k", "value", store.PutOptions{TTL: forever})
		v := put(t, s, "k/child", "value", store.PutOptions{TTL: forever})
		for range 2 {
			if err := s.Delete(context.Background(), "k"); err != nil {
				t.Fatal(err)
			}
			wantGone(t, s, "k")
		}
		wantItem(t, s, "k/child", "value", v)
	}},
	{"TouchLeavesValueAndVersionAlone", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		if _, err := s.Touch(context.Background(), "k", 2*forever); err != nil {
			t.Fatal(err)
		}
		wantItem(t, s, "k", "value", v)
	}},
	{"TouchReturnsWhatItKeeps", func(t *testing.T, s store.Store) {
		put(t, s, "k", "old", store.PutOptions{TTL: forever})
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		item, err := s.Touch(context.Background(), "k", forever)
		if err != nil || string(item.Value) != "value" || item.Version != v {
			t.Errorf("got %q in version %d, %v, want \"value\" in version %d", item.Value, item.Version, err, v)
		}
	}},
	{"TouchOfAnUnknownKeyIsNotFound", func(t *testing.T, s store.Store) {
		_, err := s.Touch(context.Background(), "k", forever)
		wantError(t, "Touch", err, store.ErrNotFound)
		wantGone(t, s, "k")
	}},
	{"InvalidArgumentsAreRefused", func(t *testing.T, s store.Store) {
		ctx := context.Background()
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		refuse := func(what, key string, value []byte, opt store.PutOptions) {
			t.Helper()
			version, err := s.Put(ctx, key, value, opt)
			if !errors.Is(err, store.ErrInvalid) || version != 0 {
				t.Errorf("Put with %s: got %d, %v, want ErrInvalid", what, version, err)
			}
		}
		refuse("no time to live", "k", nil, store.PutOptions{})
		refuse("a negative time to live", "k", nil, store.PutOptions{TTL: -1})
		refuse("both conditions", "k", nil, store.PutOptions{TTL: forever, IfAbsent: true, IfVersion: v})
		refuse("an empty key", "", nil, store.PutOptions{TTL: forever})
		refuse("a long key", strings.Repeat("k", store.MaxKey+1), nil, store.PutOptions{TTL: forever})
		refuse("a long value", "k", make([]byte, store.MaxValue+1), store.PutOptions{TTL: forever})
		for _, ttl := range []time.Duration{0, -1} {
			if _, err := s.Touch(ctx, "k", ttl); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("Touch with a time to live of %v: got %v, want ErrInvalid", ttl, err)
			}
		}
		wantItem(t, s, "k", "value", v)
	}},
	{"KeysAndValuesAtTheirLimitPass", func(t *testing.T, s store.Store) {
		key, value := strings.Repeat("k", store.MaxKey), bytes.Repeat([]byte("v"), store.MaxValue)
		if _, err := s.Put(context.Background(), key, value, store.PutOptions{TTL: forever}); err != nil {
			t.Fatal(err)
		}
		if got := get(t, s, key).Value; !bytes.Equal(got, value) {
			t.Fatalf("got %d bytes back, want %d", len(got), len(value))
		}
	}},
	{"AnEndedContextIsReportedAndChangesNothing", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := s.Get(ctx, "k")
		wantError(t, "Get", err, context.Canceled)
		_, err = s.Put(ctx, "k", []byte("unwanted"), store.PutOptions{TTL: forever})
		wantError(t, "Put", err, context.Canceled)
		_, err = s.Touch(ctx, "k", forever)
		wantError(t, "Touch", err, context.Canceled)
		wantError(t, "Delete", s.Delete(ctx, "k"), context.Canceled)
		wantItem(t, s, "k", "value", v)
	}},
}
