package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

const kilobyte = 1 << 10

// fill writes until the store is full, and returns how many entries it took: "k0", "k1" and so on.
func fill(t *testing.T, s store.Store, ttl time.Duration) int {
	t.Helper()
	for n := range 10_000 {
		version, err := s.Put(context.Background(), fmt.Sprint("k", n), make([]byte, kilobyte), store.PutOptions{TTL: ttl})
		if errors.Is(err, store.ErrFull) {
			if version != 0 {
				t.Fatalf("Put into a full store returned version %d", version)
			}
			if n < 4 {
				t.Fatalf("the store was full with %d entries", n)
			}
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("10,000 entries of 1 KiB did not fill the store")
	return 0
}

var fullCases = []testCase{
	{"AFullStoreKeepsWhatItHas", func(t *testing.T, s store.Store) {
		n := fill(t, s, forever)
		for i := range n {
			if got := get(t, s, fmt.Sprint("k", i)).Value; len(got) != kilobyte {
				t.Fatalf("k%d is %d bytes long", i, len(got))
			}
		}
		wantGone(t, s, fmt.Sprint("k", n))
		if _, err := s.Touch(context.Background(), "k0", 2*forever); err != nil {
			t.Fatal(err)
		}
	}},
	{"AFullStoreReplaces", func(t *testing.T, s store.Store) {
		fill(t, s, forever)
		old := get(t, s, "k1")
		v := put(t, s, "k1", strings.Repeat("x", kilobyte), store.PutOptions{TTL: forever, IfVersion: old.Version})
		wantItem(t, s, "k1", strings.Repeat("x", kilobyte), v)
	}},
	{"AConflictIsReportedBeforeTheCap", func(t *testing.T, s store.Store) {
		fill(t, s, forever)
		wantConflict(t, s, "k1", store.PutOptions{TTL: forever, IfAbsent: true})
		wantConflict(t, s, "none", store.PutOptions{TTL: forever, IfVersion: 1})
	}},
	{"DeletingMakesRoom", func(t *testing.T, s store.Store) {
		n := fill(t, s, forever)
		for range 2 * n { // more often than the store has room: what a deletion frees is freed each time
			if err := s.Delete(context.Background(), "k2"); err != nil {
				t.Fatal(err)
			}
			put(t, s, "k2", strings.Repeat("x", kilobyte), store.PutOptions{TTL: forever})
		}
	}},
	{"ExpiryMakesRoom", func(t *testing.T, s store.Store) {
		n := fill(t, s, life)
		advance(s, life+slack)
		for i := range n {
			put(t, s, fmt.Sprint("new", i), strings.Repeat("x", kilobyte-8), store.PutOptions{TTL: forever})
		}
	}},
}
