//go:build integration && unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/mcp"
)

// load is users who call tools of all servers. A call fails if a server without a fault returns an error.
type load struct {
	*faulttest.Load
	fixture *fixture
	servers []string
	failing sync.Map // names of servers whose calls may fail
}

// think is the longest time between two calls of a user.
const think = 200 * time.Millisecond

// startLoad connects users of both eras in turn and lets them call the servers.
func (f *fixture) startLoad(users int, servers []string) *load {
	f.t.Helper()
	l := &load{fixture: f, servers: servers}
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
	_, failed := l.failing.Load(server)
	err := u.call(server+"__"+tool, arguments{})
	if _, fails := l.failing.Load(server); err == nil || failed || fails {
		return nil
	}
	return fmt.Errorf("%s: %w", server, err)
}

// stop stops the load. It fails the test if a call has failed.
func (l *load) stop() {
	l.fixture.t.Helper()
	l.Stop()
	if n := l.Failed(); n > 0 {
		l.fixture.t.Errorf("%d calls to servers without a fault have failed", n)
	}
}
