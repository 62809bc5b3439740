//go:build integration && unix

package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/mcp"
)

// load is users who call tools of all servers one after another, until the test stops them.
type load struct {
	fixture *fixture
	servers []string
	failing sync.Map // names of servers whose calls may fail
	stopped chan struct{}
	done    sync.WaitGroup
	calls   atomic.Int64

	mu     sync.Mutex
	errors map[string]int // of calls to servers that may not fail
}

// think is the longest time between two calls of a user.
const think = 200 * time.Millisecond

// startLoad connects users of both eras in turn and lets them call the servers.
func (f *fixture) startLoad(users int, servers []string) *load {
	f.t.Helper()
	l := &load{fixture: f, servers: servers, stopped: make(chan struct{}), errors: make(map[string]int)}
	revisions := []mcp.Revision{mcp.V20251125, mcp.V20260728, mcp.V20250326, mcp.V20250618}
	var all []*user
	for i := range users {
		all = append(all, f.dial(revisions[i%len(revisions)]))
	}
	f.t.Cleanup(l.stop) // before the connections are closed
	for _, u := range all {
		l.done.Go(func() { l.use(u) })
	}
	return l
}

func (l *load) use(u *user) {
	for {
		server := l.servers[rand.N(len(l.servers))]
		tool := "echo"
		if rand.N(3) == 0 {
			tool = "steps"
		}
		_, failed := l.failing.Load(server)
		err := u.call(server+"__"+tool, arguments{})
		if _, fails := l.failing.Load(server); err != nil && !failed && !fails {
			l.mu.Lock()
			l.errors[fmt.Sprintf("%s: %.300s", server, err)]++
			l.mu.Unlock()
		}
		l.calls.Add(1)
		timer := time.NewTimer(rand.N(think))
		select {
		case <-timer.C:
		case <-l.stopped:
			timer.Stop()
			return
		}
	}
}

// proceed waits until the users have made a number of further calls.
func (l *load) proceed(calls int64) {
	l.fixture.t.Helper()
	until := l.calls.Load() + calls
	faulttest.Wait(l.fixture.t, "the users have made calls", func() error {
		if n := until - l.calls.Load(); n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}

// stop lets the users finish their calls. It fails the test if a server that did not fail has failed a call.
func (l *load) stop() {
	select {
	case <-l.stopped:
		return
	default:
	}
	close(l.stopped)
	l.done.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for text, n := range maps.All(l.errors) {
		l.fixture.t.Errorf("%d calls to a server without a fault have failed: %s", n, text)
	}
}
