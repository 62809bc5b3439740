//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// load is a number of users who call tools one after another, until the test stops them.
type load struct {
	fleet     *fleet
	stopped   chan struct{}
	done      sync.WaitGroup
	succeeded atomic.Int64
	failed    atomic.Int64
	late      atomic.Int64 // failed with the end of callTime

	mu     sync.Mutex
	errors map[string]int // how often, by text
}

// think is the longest time between two calls of a user.
const think = time.Second

// startLoad connects users in turn in every revision, and lets them call tools.
func startLoad(t *testing.T, f *fleet, users int) *load {
	t.Helper()
	l := &load{fleet: f, stopped: make(chan struct{}), errors: make(map[string]int)}
	f.open("open")
	all := make([]*user, users)
	for i := range all {
		all[i] = f.dial(t, loadWires[i%len(loadWires)])
	}
	t.Cleanup(l.stop) // before the connections are closed
	for i, u := range all {
		l.done.Go(func() { l.use(u, loadWires[i%len(loadWires)]) })
	}
	return l
}

// use calls tools until the load is stopped.
func (l *load) use(u *user, w wire) {
	for {
		if err := l.act(u, w); err != nil {
			l.failed.Add(1)
			if errors.Is(err, context.DeadlineExceeded) {
				l.late.Add(1)
			}
			l.mu.Lock()
			l.errors[fmt.Sprintf("%s: %.200s", w.name, err)]++
			l.mu.Unlock()
		} else {
			l.succeeded.Add(1)
		}
		timer := time.NewTimer(rand.N(think))
		select {
		case <-timer.C:
		case <-l.stopped:
			timer.Stop()
			return
		}
	}
}

// act makes one call, of one of the kinds that the wire has.
func (l *load) act(u *user, w wire) error {
	ctx := context.Background()
	switch n := rand.N(20); {
	case n < 2:
		return u.call(ctx, "sample", arguments{})
	case n < 3:
		return u.call(ctx, "roots-parked", arguments{})
	case n < 5 && w.revision >= mcp.V20250618:
		return u.call(ctx, "elicit", arguments{})
	case n < 7 && hasTasks(w):
		return u.call(ctx, "job-replayed", arguments{Name: "open"})
	case n < 8:
		return l.cancel(u)
	case n < 13:
		return u.call(ctx, "steps", arguments{Steps: 5, Pause: 20}, client.WithProgress(func(_, _ float64, nonce string) {
			l.fleet.ledger.Received(u.name, nonce)
		}))
	default:
		return u.call(ctx, "echo", arguments{})
	}
}

// cancel calls a tool and cancels the call while its handler runs.
func (l *load) cancel(u *user) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	err := u.callUntil(ctx, "wait", arguments{}, client.WithProgress(func(_, _ float64, _ string) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// proceed waits until the users have made a number of further calls with success.
func (l *load) proceed(calls int64) {
	l.fleet.t.Helper()
	until := l.succeeded.Load() + calls
	wait(l.fleet.t, "the users have made calls", func() error {
		if n := until - l.succeeded.Load(); n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}

// fails waits until a number of further calls have failed.
func (l *load) fails(calls int64) {
	l.fleet.t.Helper()
	until := l.failed.Load() + calls
	wait(l.fleet.t, "calls fail", func() error {
		if n := until - l.failed.Load(); n > 0 {
			return fmt.Errorf("%d have not failed", n)
		}
		return nil
	})
}

// recovers waits until no calls fail anymore.
func (l *load) recovers() {
	l.fleet.t.Helper()
	const inARow = 150
	succeeded, failed := l.succeeded.Load(), l.failed.Load()
	wait(l.fleet.t, "no calls fail", func() error {
		if now := l.failed.Load(); now != failed {
			succeeded, failed = l.succeeded.Load(), now
		}
		if n := l.succeeded.Load() - succeeded; n < inARow {
			return fmt.Errorf("%d calls in a row have succeeded", n)
		}
		return nil
	})
}

// stop lets the users finish their calls.
func (l *load) stop() {
	select {
	case <-l.stopped:
		return
	default:
	}
	close(l.stopped)
	l.done.Wait()
	l.fleet.t.Logf("%d calls have succeeded, %d have failed", l.succeeded.Load(), l.failed.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	for text, n := range l.errors {
		l.fleet.t.Logf("%5d × %s", n, text)
	}
}

// loads is the number of tests that call repeat.
const loads = 4

// repeat repeats f the given number of times, or for a part of the time of the flag -duration.
func repeat(times int, f func(i int)) {
	until := time.Now().Add(*duration / loads)
	for i := 0; *duration == 0 && i < times || time.Now().Before(until); i++ {
		f(i)
	}
}
