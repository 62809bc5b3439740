//go:build integration && unix

package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/faulttest"
)

// All replicas and Redis are killed at one moment while users call tools and tasks run. After they have started
// again, the sessions and tasks are still there, each call has one outcome, and no handler has started twice.
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

// openSessions opens a session in each revision whose sessions have IDs.
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

// Users continue while replicas are killed and started in turn. Calls may fail, but each has one outcome, no
// handler starts twice, and no user receives what belongs to another.
func TestReplicasAreKilledUnderLoad(t *testing.T) {
	f := newFleet(t)
	bound := f.usageBound(t, 200)
	l := startLoad(t, f, 200)
	l.Proceed(100)
	repeat(5, func(i int) {
		f.kill(i % replicas)
		l.Proceed(150)
		f.start(i % replicas)
		l.Proceed(150)
	})
	l.checkUsage(t, bound)
	f.finish(t)
	if n := l.late.Load(); n > 0 {
		t.Errorf("%d calls were not told that their replica has ended", n)
	}
}

// lostSessions is the memory for the sessions that Redis loses at once. A replica does not learn that they have
// ended, so its cache keeps them: up to two for each user, because calls fail while Redis starts.
const lostSessions = 2 * 100 * 2 << 10

// Redis fails under load. Calls end with errors in time, and everything works again once Redis does.
func TestRedisFailsUnderLoad(t *testing.T) {
	f := newFleet(t)
	f.forgets = true
	bound := f.usageBound(t, 100)
	l := startLoad(t, f, 100)
	l.Proceed(100)
	faults := []func(){
		func() { // Redis does not respond
			f.redis.signal(syscall.SIGSTOP)
			l.AwaitFailures(30)
			f.redis.signal(syscall.SIGCONT)
		},
		func() { // Redis is down, and starts again without its data
			f.redis.kill()
			l.AwaitFailures(30)
			f.redis.start()
			f.open("open")
			bound.Heap += lostSessions
		},
		func() { // Redis has no memory left
			f.redis.command(t, "config", "set", "maxmemory", "1")
			l.AwaitFailures(30)
			f.redis.command(t, "config", "set", "maxmemory", "0")
		},
	}
	repeat(len(faults), func(i int) {
		f.ledger.Fault()
		faults[i%len(faults)]()
		l.AwaitRecovery(150)
	})
	l.checkUsage(t, bound)
	f.finish(t)
}

// command executes a command on the server.
func (r *redisServer) command(t testing.TB, words ...any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), faulttest.Patience)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: r.addr, Protocol: 2})
	defer c.Close()
	result, err := c.Do(ctx, words...).Result()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return strings.TrimSpace(fmt.Sprint(result))
}

// Replicas are restarted one after another: each receives no more requests, ends gracefully and starts again. No
// call fails, except calls over HTTP+SSE that wait for an answer.
func TestRollingRestartFailsNoCall(t *testing.T) {
	f := newFleet(t)
	bound := f.usageBound(t, 100)
	l := startLoad(t, f, 100)
	l.Proceed(100)
	repeat(replicas, func(i int) {
		replica := i % replicas
		f.ledger.Fault()
		f.proxy.drain(t, replica)
		f.replicas[replica].signal(syscall.SIGTERM)
		f.replicas[replica].end()
		l.Proceed(100)
		f.start(replica)
		l.Proceed(100)
	})
	l.checkUsage(t, bound)
	f.finish(t)
	if n := l.Failed() - l.unanswered.Load(); n > 0 {
		t.Errorf("%d calls have failed", n)
	}
}
