//go:build integration && unix

package faults

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/faulttest"
)

// lostSessions is the memory for the sessions that Redis loses at once. A replica does not learn of their end, so its cache
// keeps them: up to two for each user, as calls fail while Redis starts.
const lostSessions = 2 * 100 * 2 << 10

// Redis fails under load. Calls end with errors in time, and everything works again when Redis does.
func TestRedisFailsUnderLoad(t *testing.T) {
	f := newFleet(t)
	f.forgets = true
	bound := f.usageBound(t, 100)
	l := startLoad(t, f, 100)
	l.Proceed(100)
	faults := []func(){
		func() { // does not respond
			f.redis.signal(syscall.SIGSTOP)
			l.AwaitFailures(30)
			f.redis.signal(syscall.SIGCONT)
		},
		func() { // is down, and starts again without its data
			f.redis.kill()
			l.AwaitFailures(30)
			f.redis.start()
			f.open("open")
			bound.Heap += lostSessions
		},
		func() { // has no memory left
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
