package client_test

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// slowServer returns a server of both eras that starts long after the time for
// server/discover, and is in one era for its life (2026-07-28, basic/versioning).
func slowServer() *script {
	return &script{
		Delay: 50 * time.Millisecond, Pins: true, Otherwise: methodNotFound,
		Answers: answers("server/discover", discovered, "initialize", initialized, "tools/call", called),
	}
}

func impatient() client.Dialer {
	d := quiet()
	d.Timeouts.Probe = time.Millisecond
	return d
}

// callTwice calls a tool, and pings, which is another method in each era.
func callTwice(t *testing.T, c *client.Client) {
	t.Helper()
	if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
		t.Errorf("%s: CallTool: %q, %v", c.Revision(), text, err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("%s: Ping: %v", c.Revision(), err)
	}
}

// The time for server/discover begins when the process has started.
func TestProcessThatStartsSlowlyIsModern(t *testing.T) {
	t.Parallel()
	s := slowServer()
	s.Delay = 1500 * time.Millisecond
	s.Answers["tools/call"] = []string{called, "!exit 1 crash"}
	d := quiet()
	d.Timeouts.Probe = time.Second // the process answers within it, once it runs
	c, err := d.Dial(t.Context(), child(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // each process starts slowly
		callTwice(t, c)
		if c.Revision() != mcp.V20260728 {
			t.Errorf("revision %s", c.Revision())
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err == nil {
			t.Error("the process has not exited")
		}
	}
}

// A process that reads and never answers server/discover has started. Dial does not wait for
// its output until Timeouts.Start.
func TestSilentProcessIsRecognizedByWhatItReads(t *testing.T) {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd":
	default:
		return // it is unknown whether the process reads
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	d := impatient()
	d.Timeouts.Start = time.Hour
	c, err := d.Dial(ctx, child(t, &script{Delay: 20 * time.Millisecond, Pins: true, Answers: answers("server/discover", "", "initialize", initialized)}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	callTwice(t, c)
}

// A process that neither reads nor writes has Timeouts.Start to start.
func TestProcessThatDoesNotReadGetsTheHandshakeAfterStart(t *testing.T) {
	t.Parallel()
	s := slowServer()
	d := impatient()
	d.Timeouts.Start = time.Millisecond
	d.Timeouts.Initialize = 20 * time.Second
	c, err := d.Dial(t.Context(), child(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	callTwice(t, c) // in the era that the handshake has selected
}

// A connection has no process whose start is known. The handshake selects the era if the
// server accepts it, and the later result of server/discover has no effect.
func TestConnectionWithASlowServerIsInOneEra(t *testing.T) {
	rejecting := slowServer()
	rejecting.Answers["initialize"], rejecting.Pins = []string{methodNotFound}, false
	lateDiscovery := slowServer()
	lateDiscovery.Delay, lateDiscovery.After = 0, map[string]time.Duration{"server/discover": 3 * time.Second}
	lateHandshake := slowServer()
	lateHandshake.Delay, lateHandshake.After = 2*time.Second, map[string]time.Duration{"initialize": 2 * time.Second}
	for name, test := range map[string]struct {
		server *script
		want   mcp.Revision
	}{
		"of both eras":                 {slowServer(), mcp.V20250618},
		"answers server/discover last": {lateDiscovery, mcp.V20250618},
		"answers the handshake last":   {lateHandshake, mcp.V20250618},
		"of 2026-07-28 only":           {rejecting, mcp.V20260728},
	} {
		t.Run(name, func(t *testing.T) {
			for how, connect := range map[string]func(*testing.T, *script) client.Target{"pipe": pipeTo, "socket": socketTo} {
				check := func(t *testing.T) {
					d := impatient()
					d.Timeouts.Initialize = 5 * time.Second
					c, err := d.Dial(t.Context(), connect(t, test.server))
					if err != nil {
						t.Fatalf("%s: %v", how, err)
					}
					if c.Revision() != test.want {
						t.Errorf("%s: revision %s, want %s", how, c.Revision(), test.want)
					}
					callTwice(t, c)
					time.Sleep(10 * time.Second) // all late answers arrive
					callTwice(t, c)
					c.Close()
				}
				synctest.Test(t, check)
			}
		})
	}
}

// pipeTo returns a target in memory.
func pipeTo(t *testing.T, s *script) client.Target {
	near, far := transport.Pipe()
	serve(t, s, far)
	return client.Conn(near)
}

// socketTo returns a target at the other end of a byte stream of package net.
func socketTo(t *testing.T, s *script) client.Target {
	near, far := net.Pipe()
	serve(t, s, transport.Stream(far, transport.StreamOptions{}))
	return client.Conn(transport.Stream(near, transport.StreamOptions{}))
}

func serve(t *testing.T, s *script, conn transport.Conn) {
	var running sync.WaitGroup
	running.Go(func() { s.serve(conn) })
	t.Cleanup(func() {
		conn.Close()
		running.Wait()
	})
}
