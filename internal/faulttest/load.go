package faulttest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Load is a number of users who act again and again until the load stops. Its methods fail the test, so only the
// goroutine of the test calls them.
type Load struct {
	t         testing.TB
	stopped   chan struct{}
	done      sync.WaitGroup
	succeeded atomic.Int64
	failed    atomic.Int64

	mu     sync.Mutex
	errors map[string]int // how often each error occurred, by text
}

// StartLoad lets users act at the same time. Between two actions, a user pauses for a random time up to think. The load
// stops when the test ends, before the cleanups that the test has registered so far.
func StartLoad(t testing.TB, think time.Duration, users []func() error) *Load {
	l := &Load{t: t, stopped: make(chan struct{}), errors: make(map[string]int)}
	t.Cleanup(l.Stop)
	for _, act := range users {
		l.done.Go(func() { l.repeat(act, think) })
	}
	return l
}

func (l *Load) repeat(act func() error, think time.Duration) {
	for {
		if err := act(); err != nil {
			l.failed.Add(1)
			l.mu.Lock()
			l.errors[fmt.Sprintf("%.300s", err)]++
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

// Proceed waits until a number of further actions have succeeded.
func (l *Load) Proceed(actions int64) {
	l.t.Helper()
	l.await("actions succeed", &l.succeeded, actions)
}

// AwaitFailures waits until a number of further actions have failed.
func (l *Load) AwaitFailures(actions int64) {
	l.t.Helper()
	l.await("actions fail", &l.failed, actions)
}

func (l *Load) await(what string, counter *atomic.Int64, more int64) {
	l.t.Helper()
	until := counter.Load() + more
	Wait(l.t, what, func() error {
		if n := until - counter.Load(); n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}

// AwaitRecovery waits until a number of actions have succeeded without a failure in between.
func (l *Load) AwaitRecovery(actions int64) {
	l.t.Helper()
	succeeded, failed := l.succeeded.Load(), l.failed.Load()
	Wait(l.t, "no actions fail", func() error {
		if now := l.failed.Load(); now != failed {
			succeeded, failed = l.succeeded.Load(), now
		}
		if n := l.succeeded.Load() - succeeded; n < actions {
			return fmt.Errorf("%d actions in a row have succeeded", n)
		}
		return nil
	})
}

// Failed returns the number of actions that have failed.
func (l *Load) Failed() int64 { return l.failed.Load() }

// Stop lets the users finish their actions, and logs their errors.
func (l *Load) Stop() {
	select {
	case <-l.stopped:
		return
	default:
	}
	close(l.stopped)
	l.done.Wait()
	l.t.Logf("%d actions have succeeded, %d have failed", l.succeeded.Load(), l.failed.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	for text, n := range l.errors {
		l.t.Logf("%5d × %s", n, text)
	}
}
