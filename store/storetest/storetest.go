// Package storetest tests implementations of [store.KV] and [store.Log].
//
//	func TestStore(t *testing.T) {
//		storetest.RunKV(t, func(t *testing.T) store.KV { return mystore.New(…) })
//		storetest.RunLog(t, func(t *testing.T) store.Log { return mystore.New(…) })
//	}
//
// An implementation whose clock the test controls should implement [Clock]. Expiry is
// then tested without waiting; otherwise the tests sleep for a few seconds in all.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Clock is an optional interface of an implementation under test whose time can be
// advanced.
type Clock interface {
	// Advance moves the time of the implementation forward by d.
	Advance(d time.Duration)
}

// RunKV tests the contract of [store.KV], except for limits; see [RunKVFull]. Each
// subtest calls open for a new, empty KV. open registers its own cleanup with t.
func RunKV(t *testing.T, open func(t *testing.T) store.KV) {
	run(t, open, kvCases, ttlCases, raceCases)
}

// RunKVFull tests the behaviour of a [store.KV] that reaches its limit. A KV that open
// returns must accept at least 4 entries of 1 KiB and must return [store.ErrFull]
// before it has 10,000 of them.
func RunKVFull(t *testing.T, open func(t *testing.T) store.KV) {
	run(t, open, fullCases)
}

// RunLog tests the contract of [store.Log]. RunLog and each subtest call open for a new,
// empty Log. open registers its own cleanup with t. If the Log also implements [store.KV],
// RunLog tests that keys and streams with the same names are independent.
func RunLog(t *testing.T, open func(t *testing.T) store.Log) {
	run(t, open, logCases)
	if _, ok := open(t).(keysAndStreams); ok {
		run(t, func(t *testing.T) keysAndStreams { return open(t).(keysAndStreams) }, sharedCases)
	}
}

// keysAndStreams is a store that implements both interfaces.
type keysAndStreams interface {
	store.KV
	store.Log
}

type testCase[S any] struct {
	name string
	test func(t *testing.T, s S)
}

func run[S any](t *testing.T, open func(t *testing.T) S, groups ...[]testCase[S]) {
	for _, group := range groups {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
		}
	}
}

// life is the time to live in tests that wait for expiry. A store over a network must
// answer several requests within a quarter of it.
const life = 400 * time.Millisecond

// forever is the time to live in tests that do not depend on it.
const forever = time.Hour

func advance(s any, d time.Duration) {
	if clock, ok := s.(Clock); ok {
		clock.Advance(d)
	} else {
		time.Sleep(d)
	}
}

func put(t *testing.T, kv store.KV, key, value string, opt store.PutOptions) uint64 {
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

func get(t *testing.T, kv store.KV, key string) store.Item {
	t.Helper()
	item, err := kv.Get(context.Background(), key)
	if err != nil {
		t.Fatalf("Get(%.40q): %v", key, err)
	}
	return item
}

func wantItem(t *testing.T, kv store.KV, key, value string, version uint64) {
	t.Helper()
	if item := get(t, kv, key); string(item.Value) != value || item.Version != version {
		t.Fatalf("Get(%.40q) = %.40q version %d, want %.40q version %d", key, item.Value, item.Version, value, version)
	}
}

func wantNotFound(t *testing.T, kv store.KV, key string) {
	t.Helper()
	item, err := kv.Get(context.Background(), key)
	wantError(t, "Get", err, store.ErrNotFound)
	if item.Value != nil || item.Version != 0 {
		t.Fatalf("Get(%.40q) failed and returned %+v", key, item)
	}
}
