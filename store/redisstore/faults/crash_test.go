//go:build integration && unix

package faults

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// All replicas and Redis are killed at one moment while users call tools and tasks run. When they have started again, the
// sessions and tasks are there, the calls have one outcome, and no handler has started twice.
func TestReplicasAndRedisAreKilledTogether(t *testing.T) {
	f := newFleet(t, "--appendonly", "yes", "--appendfsync", "always")
	bound := f.usageBound(t, 50)
	l := startLoad(t, f, 50)
	repeat(1, func(round int) {
		sessions := f.openSessions(t)
		users := f.taskUsers(t)
		gate := fmt.Sprint("crash-", round)
		forEach(t, users, func(u *taskUser) error { return u.begin(t.Context(), gate, 2) })
		l.Proceed(100)
		f.crash()
		f.redis.start()
		for i := range f.replicas {
			f.start(i)
		}
		f.open(gate)
		l.AwaitRecovery(100)
		for _, s := range sessions {
			for range replicas {
				if _, status := s.post(t, s.id, pingBody); status != http.StatusOK {
					t.Errorf("%s: ping in a session: status %d", s.wire.name, status)
				}
			}
			s.send(t, http.MethodDelete, s.id, "")
		}
		forEach(t, users, func(u *taskUser) error { return u.connectAll(t) })
		forEach(t, users, func(u *taskUser) error { return u.complete(t.Context(), false) })
		forEach(t, users, (*taskUser).close)
	})
	l.checkUsage(t, bound)
	f.finish(t)
	if n := l.late.Load(); n > 0 {
		t.Errorf("%d calls were not told that their replica has ended", n)
	}
}

// crash kills Redis and all replicas at the same time.
func (f *fleet) crash() {
	f.ledger.Fault()
	var killing sync.WaitGroup
	killing.Go(f.redis.kill)
	for _, r := range f.replicas {
		killing.Go(r.kill)
	}
	killing.Wait()
}

// rawSession is a session whose messages the test writes itself.
type rawSession struct {
	*user
	id string
}

// openSessions opens a session in each revision that has sessions with ids.
func (f *fleet) openSessions(t *testing.T) (opened []rawSession) {
	t.Helper()
	for _, w := range wires {
		if sessions(w) {
			u := f.newUser(w)
			opened = append(opened, rawSession{u, u.initialize(t)})
		}
	}
	return opened
}
