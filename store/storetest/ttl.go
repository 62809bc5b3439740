package storetest

import (
	"context"
	"math"
	"testing"

	"github.com/parley-mcp/parley/store"
)

// slack is the tolerance for late expiry, rounding included.
const slack = life / 8

var ttlCases = []testCase[store.KV]{
	{"ItemExistsUntilItExpires", func(t *testing.T, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life/2)
		wantItem(t, kv, "k", "value", v)
		advance(kv, life/2+slack)
		wantNotFound(t, kv, "k")
	}},
	{"PutResetsTimeToLive", func(t *testing.T, kv store.KV) {
		put(t, kv, "longer", "value", store.PutOptions{TTL: life})
		put(t, kv, "shorter", "value", store.PutOptions{TTL: forever})
		put(t, kv, "shorter", "value", store.PutOptions{TTL: life})
		v := put(t, kv, "longer", "value", store.PutOptions{TTL: forever})
		advance(kv, life+slack)
		wantItem(t, kv, "longer", "value", v)
		wantNotFound(t, kv, "shorter")
	}},
	{"TouchExtendsTimeToLive", func(t *testing.T, kv store.KV) {
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
	{"TouchNeverShortensTimeToLive", func(t *testing.T, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: forever})
		if _, err := kv.Touch(context.Background(), "k", life); err != nil {
			t.Fatal(err)
		}
		advance(kv, life+slack)
		wantItem(t, kv, "k", "value", v)
	}},
	{"TouchOfExpiredKeyIsNotFound", func(t *testing.T, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		_, err := kv.Touch(context.Background(), "k", forever)
		wantError(t, "Touch", err, store.ErrNotFound)
		wantNotFound(t, kv, "k")
	}},
	{"IfAbsentReplacesExpiredItem", func(t *testing.T, kv store.KV) {
		old := put(t, kv, "k", "old", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		v := put(t, kv, "k", "new", store.PutOptions{TTL: forever, IfAbsent: true})
		if v == old {
			t.Fatalf("version %d was already used before the key expired", v)
		}
		wantItem(t, kv, "k", "new", v)
	}},
	{"IfVersionConflictsWithExpiredItem", func(t *testing.T, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfVersion: v})
		wantNotFound(t, kv, "k")
	}},
	{"ConflictDoesNotExtendTimeToLive", func(t *testing.T, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		wantConflict(t, kv, "k", store.PutOptions{TTL: forever, IfAbsent: true})
		advance(kv, life+slack)
		wantNotFound(t, kv, "k")
	}},
	{"GetDoesNotExtendTimeToLive", func(t *testing.T, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life/2)
		get(t, kv, "k")
		advance(kv, life/2+slack)
		wantNotFound(t, kv, "k")
	}},
	{"DeleteOfExpiredKeySucceeds", func(t *testing.T, kv store.KV) {
		put(t, kv, "k", "value", store.PutOptions{TTL: life})
		advance(kv, life+slack)
		if err := kv.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
	}},
	{"MaximumTimeToLiveDoesNotOverflow", func(t *testing.T, kv store.KV) {
		v := put(t, kv, "k", "value", store.PutOptions{TTL: math.MaxInt64})
		if _, err := kv.Touch(context.Background(), "k", math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		advance(kv, slack)
		wantItem(t, kv, "k", "value", v)
	}},
}
