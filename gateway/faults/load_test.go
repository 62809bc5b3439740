//go:build integration && unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// load is a number of users who call tools of all servers. A call fails if a server without a fault
// returns an error.
type load struct {
	*faulttest.Load
	fixture *fixture
	servers []string

	mu     sync.Mutex
	states map[string]*state
}

// state is what the load knows about a server.
type state struct {
	begun  int64 // number of calls begun
	faults int64 // number of faults begun
	fails  bool  // whether calls may fail
}

// think is the longest time between two calls of a user.
const think = 200 * time.Millisecond

// startLoad connects users of both eras in turn and lets them call the servers.
func (f *fixture) startLoad(users int, servers []string) *load {
	f.t.Helper()
	l := &load{fixture: f, servers: servers, states: make(map[string]*state)}
	for _, name := range servers {
		l.states[name] = new(state)
	}
	revisions := []mcp.Revision{mcp.V20251125, mcp.V20260728, mcp.V20250326, mcp.V20250618}
	acts := make([]func() error, users)
	for i := range acts {
		u := f.dial(revisions[i%len(revisions)])
		acts[i] = func() error { return l.act(u) }
	}
	l.Load = faulttest.StartLoad(f.t, think, acts)
	return l
}

// act calls a tool of one server.
func (l *load) act(u *user) error {
	server := l.servers[rand.N(len(l.servers))]
	tool := "echo"
	if rand.N(3) == 0 {
		tool = "steps"
	}
	before := l.begin(server)
	if err := u.call(server+"__"+tool, arguments{}); err != nil && !before.fails &&
		l.state(server).faults == before.faults {
		return fmt.Errorf("%s: %w", server, err)
	}
	return nil
}

// begin counts a call, and returns the state of its server.
func (l *load) begin(server string) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.states[server]
	s.begun++
	return *s
}

func (l *load) state(server string) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.states[server]
}

// fail permits calls to a server to fail if they are in flight or begin before recovered is called.
func (l *load) fail(server string) {
	l.fixture.ledger.Fault()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[server].faults++
	l.states[server].fails = true
}

// recovered undoes fail: later calls must not fail.
func (l *load) recovered(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[server].fails = false
}

// awaitBegun waits until the users have begun a number of further calls to a server.
func (l *load) awaitBegun(server string, calls int64) {
	l.fixture.t.Helper()
	until := l.state(server).begun + calls
	faulttest.Wait(l.fixture.t, "calls to "+server+" have begun", func() error {
		if n := until - l.state(server).begun; n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}

// stop stops the load. It fails the test if a call has failed.
func (l *load) stop() {
	l.fixture.t.Helper()
	l.Stop()
	n := l.Failed()
	must.CheckThat(l.fixture.t, n <= 0, "%d calls to servers without a fault have failed", n)
}
