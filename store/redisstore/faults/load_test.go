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

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/mcp"
)

// load is a number of users who call tools.
type load struct {
	*faulttest.Load
	fleet *fleet
	users []*user
	late  atomic.Int64 // calls that have failed with the end of callTime

	abandoned atomic.Int64 // parked calls of 2026-07-28 that have failed; their handlers may wait for an hour
}

// think is the longest time between two calls of a user.
const think = time.Second

// startLoad connects users in turn in every revision, and lets them call tools.
func startLoad(t *testing.T, f *fleet, users int) *load {
	t.Helper()
	l := &load{fleet: f}
	f.open("open")
	acts := make([]func() error, users)
	for i := range acts {
		u := f.dial(t, wires[i%len(wires)])
		l.users = append(l.users, u)
		acts[i] = func() error {
			err := l.act(u)
			if errors.Is(err, context.DeadlineExceeded) {
				l.late.Add(1)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", u.wire.name, err)
			}
			return err
		}
	}
	l.Load = faulttest.StartLoad(t, think, acts)
	return l
}

// end stops the load and closes the connections of the users.
func (l *load) end() {
	l.fleet.t.Helper()
	l.Stop()
	var closing sync.WaitGroup
	for _, u := range l.users {
		closing.Go(func() {
			if err := u.Close(); err != nil {
				l.fleet.t.Errorf("%s, %s: %v", u.name, u.wire.name, err)
			}
		})
	}
	closing.Wait()
}

// act makes one call, of one of the kinds that the wire has.
func (l *load) act(u *user) error {
	ctx, w := context.Background(), u.wire
	switch n := rand.N(20); {
	case n < 2:
		return u.call(ctx, "sample", arguments{})
	case n < 3:
		err := u.call(ctx, "roots-parked", arguments{})
		if err != nil && modern(w) {
			l.abandoned.Add(1)
		}
		return err
	case n < 5 && w.revision >= mcp.V20250618:
		return u.call(ctx, "elicit", arguments{})
	case n < 7 && hasTasks(w):
		return u.call(ctx, "job-replayed", arguments{Name: "open"})
	case n < 8:
		return l.cancel(u)
	case n < 13:
		return u.call(ctx, "steps", arguments{Steps: 5, Pause: 20}, u.progress(nil))
	default:
		return u.call(ctx, "echo", arguments{})
	}
}

// cancel calls a tool and cancels the call while its handler runs.
func (l *load) cancel(u *user) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	err := u.callUntil(ctx, "wait", arguments{}, u.progress(func(float64) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// loads is the number of tests that call repeat.
const loads = 5

// repeat repeats f the given number of times, or for a part of the time of the flag -duration.
func repeat(times int, f func(i int)) {
	until := time.Now().Add(*duration / loads)
	for i := 0; *duration == 0 && i < times || time.Now().Before(until); i++ {
		f(i)
	}
}
