// Package storetest tests implementations of [store.KV], [store.Log] and [store.Bus].
//
//	func TestStore(t *testing.T) {
//		storetest.RunKV(t, func(t *testing.T) store.KV { return mystore.New(…) })
//		storetest.RunLog(t, func(t *testing.T) store.Log { return mystore.New(…) })
//		storetest.RunBus(t, func(t *testing.T) store.Bus { return mystore.New(…) })
//	}
//
// Some cases record what concurrent callers see and check that it is linearizable. A store for several replicas should
// run the suite on a value that spreads the operations over several of them.
//
// An implementation whose clock the test controls should implement [Clock]. Expiry is
// then tested without waiting; otherwise the tests sleep for a few seconds in all.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Clock is an optional interface of an implementation under test whose time can be advanced.
type Clock interface {
	// Advance moves the time of the implementation forward by d.
	Advance(d time.Duration)
}

// RunKV tests the contract of [store.KV], except for the limits of the whole KV; see [RunKVFull]. Each subtest calls
// open for a new, empty KV. open registers its own cleanup with t.
func RunKV(t *testing.T, open func(t *testing.T) store.KV) {
	run(t, open, kvCases, ttlCases, raceCases, setCases, setTTLCases, kvHistoryCases)
}

// RunKVFull tests the behaviour of a [store.KV] that reaches its limit. A KV that open returns must accept at least 4
// entries of 1 KiB and must return [store.ErrFull] before it has 10,000 of them.
func RunKVFull(t *testing.T, open func(t *testing.T) store.KV) {
	run(t, open, fullCases)
}

// RunLog tests the contract of [store.Log]. RunLog and each subtest call open for a new,
// empty Log. open registers its own cleanup with t. If the Log also implements [store.KV],
// RunLog tests that keys and streams with the same names are independent.
func RunLog(t *testing.T, open func(t *testing.T) store.Log) {
	run(t, open, logCases, purgeCases, logTTLCases, logHistoryCases)
	if _, ok := open(t).(keysAndStreams); ok {
		run(t, func(t *testing.T) keysAndStreams { return open(t).(keysAndStreams) }, sharedCases)
	}
}

// RunBus tests the contract of [store.Bus], except for interruptions of its connection.
// Each subtest calls open for a new Bus. open registers its own cleanup with t.
func RunBus(t *testing.T, open func(t *testing.T) store.Bus) {
	run(t, open, busCases, queueCases, busRaceCases)
}

// keysAndStreams is a store that implements both interfaces.
type keysAndStreams interface {
	store.KV
	store.Log
}

// Limits that package store states.
const (
	maxKey      = 16 << 10
	maxValue    = 17 << 20
	maxList     = 1000
	maxMessage  = 64 << 10
	maxQueue    = 1024
	maxSeq      = 1 << 53
	logOverhead = 128
)

type testCase[S any] struct {
	name string
	test func(t tb, s S)
}

// tb is what the cases need of a *testing.T. The tests of this package run the cases on
// broken stores with another implementation.
type tb interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
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

// slack is the tolerance for late expiry, rounding included.
const slack = life / 8

// forever is the time to live in tests that do not depend on it.
const forever = time.Hour

func advance(s any, d time.Duration) {
	if clock, ok := s.(Clock); ok {
		clock.Advance(d)
	} else {
		time.Sleep(d)
	}
}

func wantError(t tb, op string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got error %v, want %v", op, err, want)
	}
}

// cancelled returns a context that has ended.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
