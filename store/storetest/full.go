package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mcp/parley/store"
)

const kilobyte = 1 << 10

// fill writes entries "k0", "k1" and so on until the KV is full, and returns their number.
func fill(t tb, kv store.KV, ttl time.Duration) int {
	t.Helper()
	for n := range 10_000 {
		version, err := kv.Put(context.Background(), fmt.Sprint("k", n), make([]byte, kilobyte), store.PutOptions{TTL: ttl})
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
		join(t, kv, "s", roomy, "a")
		fill(t, kv, forever)
		for i := 0; ; i++ {
			err := kv.Add(context.Background(), "s", fmt.Sprint("b", i, strings.Repeat("x", kilobyte)), roomy)
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
