package storetest

import (
	"context"
	"math"

	"github.com/parley-mcp/parley/store"
)

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
	{"GetDoesNotExtendTimeToLive", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life/2)
		get(t, kv, "k")
		advance(kv, life/2+slack)
		wantNotFound(t, kv, "k")
	}},
	{"DeleteOfExpiredKeySucceeds", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		if err := kv.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
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
	{"HolderRenewsLeaseByVersion", func(t tb, kv store.KV) {
		v := put(t, kv, "lease", "a", store.PutOptions{TTL: life, IfAbsent: true})
		for range 3 {
			advance(kv, life/2)
			wantConflict(t, kv, "lease", store.PutOptions{TTL: life, IfAbsent: true})
			v = put(t, kv, "lease", "a", store.PutOptions{TTL: life, IfVersion: v})
		}
		wantItem(t, kv, "lease", "a", v)
	}},
	{"ExpiredLeaseCannotBeRenewed", func(t tb, kv store.KV) {
		old := put(t, kv, "lease", "a", store.PutOptions{TTL: life, IfAbsent: true})
		advance(kv, life+slack)
		v := put(t, kv, "lease", "b", store.PutOptions{TTL: forever, IfAbsent: true})
		wantConflict(t, kv, "lease", store.PutOptions{TTL: forever, IfVersion: old})
		wantItem(t, kv, "lease", "b", v)
	}},
	{"ShortestTimeToLiveIsAccepted", func(t tb, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: 1})
		advance(kv, slack)
		wantNotFound(t, kv, "k")
	}},
}
