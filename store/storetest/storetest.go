// Package storetest tests implementations of the interfaces of package store.
//
//	func TestStore(t *testing.T) {
//		storetest.RunKV(t, func(t *testing.T) store.KV { return mystore.New(…) })
//		storetest.RunSet(t, func(t *testing.T) store.Set { return mystore.New(…) })
//		storetest.RunLog(t, func(t *testing.T) store.Log { return mystore.New(…) })
//		storetest.RunBus(t, func(t *testing.T) store.Bus { return mystore.New(…) })
//	}
//
// The contract is a table: each case is a name and the steps that it takes. A store for several replicas should run it
// on a value that spreads the operations over several of them. The contract uses few concurrent callers; the tests of
// store/redisstore also check that histories of concurrent callers are linearizable.
//
// An implementation whose clock the test controls should implement [Clock]. Expiry is then tested without waiting;
// otherwise, the tests sleep for a few seconds in total.
package storetest

import (
	"context"
	"errors"
	"sync"
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
func RunKV(t *testing.T, open func(t *testing.T) store.KV) { runAll(t, open, kvCases) }

// RunKVFull tests the behaviour of a [store.KV] that reaches its limit. A KV that open returns must accept at least 4
// entries of 1 KiB and must return [store.ErrFull] before it has 10,000 of them. If the KV also implements [store.Set],
// RunKVFull tests that both share the limit.
func RunKVFull(t *testing.T, open func(t *testing.T) store.KV) { runAll(t, open, fullCases) }

// RunSet tests the contract of [store.Set]. RunSet and each subtest call open for a new, empty Set. open registers its
// own cleanup with t. If the Set also implements [store.KV], RunSet tests that sets and keys with the same names are
// independent.
func RunSet(t *testing.T, open func(t *testing.T) store.Set) { runAll(t, open, setCases) }

// RunLog tests the contract of [store.Log]. RunLog and each subtest call open for a new, empty Log. open registers its
// own cleanup with t. If the Log also implements [store.KV], RunLog tests that keys and streams with the same names are
// independent.
func RunLog(t *testing.T, open func(t *testing.T) store.Log) { runAll(t, open, logCases) }

// RunBus tests the contract of [store.Bus], except for interruptions of its connection. Each subtest calls open for a
// new Bus. open registers its own cleanup with t.
func RunBus(t *testing.T, open func(t *testing.T) store.Bus) { runAll(t, open, busCases) }

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

// life is the time to live in cases that wait for expiry, and slack the tolerance for late expiry, including rounding.
// A store over a network must answer several requests within a quarter of life. forever is the time to live in cases
// that do not depend on it.
const (
	life    = 400 * time.Millisecond
	slack   = life / 8
	forever = time.Hour
)

type testCase struct {
	name  string
	steps []step
}

// step is one operation and its expected result.
type step func(r *run)

// run is a case that runs on a store.
type run struct {
	tb
	store    any
	versions map[string][]uint64            // versions of the successful writes of each key, oldest first
	queues   map[string]*store.Subscription // by the names that the case gives them
}

// tb contains the methods of *testing.T that the steps need. The tests of this package run the cases on broken
// stores with another implementation.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func runAll[S any](t *testing.T, open func(t *testing.T) S, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func (c testCase) run(t tb, s any) {
	r := &run{tb: t, store: s, versions: make(map[string][]uint64), queues: make(map[string]*store.Subscription)}
	defer func() {
		for _, s := range r.queues {
			s.Close()
		}
	}()
	for _, step := range c.steps {
		step(r)
	}
}

func (r *run) kv() store.KV   { return r.store.(store.KV) }
func (r *run) set() store.Set { return r.store.(store.Set) }
func (r *run) log() store.Log { return r.store.(store.Log) }
func (r *run) bus() store.Bus { return r.store.(store.Bus) }

// want fails the test unless err is the error that is wanted, which may be nil.
func (r *run) want(want, err error, operation string, args ...any) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Fatalf("%s%.100q: got error %v, want %v", operation, args, err, want)
	}
}

// alsoA returns a step that runs steps if the store implements S, too.
func alsoA[S any](steps ...step) step {
	return func(r *run) {
		if _, ok := r.store.(S); ok {
			for _, step := range steps {
				step(r)
			}
		}
	}
}

// each returns a step that runs steps n times, for i = 0, 1, 2 and so on.
func each(n int, steps func(i int) []step) step {
	return func(r *run) {
		for i := range n {
			for _, step := range steps(i) {
				step(r)
			}
		}
	}
}

// times returns a step that runs the same steps n times.
func times(n int, steps ...step) step { return each(n, func(int) []step { return steps }) }

// forEach returns a step that runs steps for each name.
func forEach(names []string, steps func(name string) []step) step {
	return each(len(names), func(i int) []step { return steps(names[i]) })
}

// wait advances the time of the store.
func wait(d time.Duration) step {
	return func(r *run) {
		if clock, ok := r.store.(Clock); ok {
			clock.Advance(d)
		} else {
			time.Sleep(d)
		}
	}
}

// invalid checks that every call returns store.ErrInvalidArgument. The name says what is wrong.
func invalid(calls map[string]func(r *run) error) step {
	return func(r *run) {
		for name, call := range calls {
			r.want(store.ErrInvalidArgument, call(r), name)
		}
	}
}

// cancelled checks that every call returns the error of a context that has ended.
func cancelled(calls map[string]func(r *run, ctx context.Context) error) step {
	return func(r *run) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for name, call := range calls {
			r.want(context.Canceled, call(r, ctx), name)
		}
	}
}

const racers = 8

// race runs f in several goroutines at once and waits for all of them.
func race(f func(racer int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for racer := range racers {
		wg.Go(func() {
			<-start
			f(racer)
		})
	}
	close(start)
	wg.Wait()
}

var background = context.Background()
