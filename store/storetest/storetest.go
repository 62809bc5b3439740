// Package storetest holds the one suite that every implementation of [store.Store] passes.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mystore.New(…) })
//	}
//
// A store whose clock the test owns should implement [Clock]; its expiry is then tested without
// waiting. With any other the suite sleeps, a few seconds in all.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Clock is implemented by a store under test whose time can be moved.
type Clock interface {
	// Advance lets d pass for the store.
	Advance(d time.Duration)
}

// Run tests everything that the contract promises, apart from what happens at the cap (see
// [RunFull]). Each subtest calls open for a store that no other test touches and that starts empty;
// open registers its own clean-up with t.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	run(t, open, kvCases, ttlCases, raceCases, logCases)
}

// RunFull tests what happens at the cap. The store that open returns takes at least 4 entries of 1 KiB
// and reports [store.ErrFull] before it holds 10,000 of them.
func RunFull(t *testing.T, open func(t *testing.T) store.Store) {
	run(t, open, fullCases)
}

type testCase struct {
	name string
	test func(t *testing.T, s store.Store)
}

func run(t *testing.T, open func(t *testing.T) store.Store, groups ...[]testCase) {
	for _, group := range groups {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
		}
	}
}

// life is the time to live in the tests that wait for its end. A real store over a network answers
// many times within a quarter of it.
const life = 400 * time.Millisecond

// forever is the time to live in the tests that do not care about it.
const forever = time.Hour

func advance(s store.Store, d time.Duration) {
	if clock, ok := s.(Clock); ok {
		clock.Advance(d)
	} else {
		time.Sleep(d)
	}
}

func put(t *testing.T, s store.Store, key, value string, opt store.PutOptions) uint64 {
	t.Helper()
	version, err := s.Put(context.Background(), key, []byte(value), opt)
	if err != nil {
		t.Fatalf("Put(%.40q, %.40q, %+v): %v", key, value, opt, err)
	}
	if version == 0 {
		t.Fatalf("Put(%.40q) returned version 0", key)
	}
	return version
}

func get(t *testing.T, s store.Store, key string) store.Item {
	t.Helper()
	item, err := s.Get(context.Background(), key)
	if err != nil {
		t.Fatalf("Get(%.40q): %v", key, err)
	}
	return item
}

func wantItem(t *testing.T, s store.Store, key, value string, version uint64) {
	t.Helper()
	if item := get(t, s, key); string(item.Value) != value || item.Version != version {
		t.Fatalf("Get(%.40q) = %.40q version %d, want %.40q version %d", key, item.Value, item.Version, value, version)
	}
}

func wantGone(t *testing.T, s store.Store, key string) {
	t.Helper()
	item, err := s.Get(context.Background(), key)
	wantError(t, "Get", err, store.ErrNotFound)
	if item.Value != nil || item.Version != 0 {
		t.Fatalf("Get(%.40q) failed and returned %+v", key, item)
	}
}
