package storetest

import (
	"context"
	"math"
	"testing"

	"github.com/parley-mcp/parley/store"
)

// slack is how late a store may notice, rounding included.
const slack = life / 8

var ttlCases = []testCase{
	{"AnItemIsThereUntilItExpires", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: life})
		advance(s, life/2)
		wantItem(t, s, "k", "value", v)
		advance(s, life/2+slack)
		wantGone(t, s, "k")
	}},
	{"PutSetsTheTimeToLiveAnew", func(t *testing.T, s store.Store) {
		put(t, s, "longer", "value", store.PutOptions{TTL: life})
		put(t, s, "shorter", "value", store.PutOptions{TTL: forever})
		put(t, s, "shorter", "value", store.PutOptions{TTL: life})
		v := put(t, s, "longer", "value", store.PutOptions{TTL: forever})
		advance(s, life+slack)
		wantItem(t, s, "longer", "value", v)
		wantGone(t, s, "shorter")
	}},
	{"TouchExtends", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: life})
		for range 3 {
			advance(s, life/2)
			if _, err := s.Touch(context.Background(), "k", life); err != nil {
				t.Fatal(err)
			}
			wantItem(t, s, "k", "value", v)
		}
		advance(s, life+slack)
		wantGone(t, s, "k")
	}},
	{"TouchNeverShortens", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: forever})
		if _, err := s.Touch(context.Background(), "k", life); err != nil {
			t.Fatal(err)
		}
		advance(s, life+slack)
		wantItem(t, s, "k", "value", v)
	}},
	{"TouchDoesNotReviveTheExpired", func(t *testing.T, s store.Store) {
		put(t, s, "k", "value", store.PutOptions{TTL: life})
		advance(s, life+slack)
		_, err := s.Touch(context.Background(), "k", forever)
		wantError(t, "Touch", err, store.ErrNotFound)
		wantGone(t, s, "k")
	}},
	{"IfAbsentWritesOverTheExpired", func(t *testing.T, s store.Store) {
		old := put(t, s, "k", "old", store.PutOptions{TTL: life})
		advance(s, life+slack)
		v := put(t, s, "k", "new", store.PutOptions{TTL: forever, IfAbsent: true})
		if v == old {
			t.Fatalf("version %d was used before the key expired", v)
		}
		wantItem(t, s, "k", "new", v)
	}},
	{"IfVersionOfTheExpiredConflicts", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: life})
		advance(s, life+slack)
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfVersion: v})
		wantGone(t, s, "k")
	}},
	{"AConflictDoesNotExtend", func(t *testing.T, s store.Store) {
		put(t, s, "k", "value", store.PutOptions{TTL: life})
		wantConflict(t, s, "k", store.PutOptions{TTL: forever, IfAbsent: true})
		advance(s, life+slack)
		wantGone(t, s, "k")
	}},
	{"GetDoesNotExtend", func(t *testing.T, s store.Store) {
		put(t, s, "k", "value", store.PutOptions{TTL: life})
		advance(s, life/2)
		get(t, s, "k")
		advance(s, life/2+slack)
		wantGone(t, s, "k")
	}},
	{"DeleteOfTheExpiredIsNoError", func(t *testing.T, s store.Store) {
		put(t, s, "k", "value", store.PutOptions{TTL: life})
		advance(s, life+slack)
		if err := s.Delete(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
	}},
	{"TheLongestTimeToLiveDoesNotOverflow", func(t *testing.T, s store.Store) {
		v := put(t, s, "k", "value", store.PutOptions{TTL: math.MaxInt64})
		if _, err := s.Touch(context.Background(), "k", math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		advance(s, slack)
		wantItem(t, s, "k", "value", v)
	}},
}
