package mcptest

import (
	"context"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// Dial connects a client to s in memory and returns it. The functions configure the
// Dialer; [WithRevision] returns one. The client is closed when the test ends; the server
// is not shut down, so tests can share it. If the client cannot connect, or s is not
// configured correctly, Dial fails the test at once.
func Dial(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	check(t, s)
	near, far := transport.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(ctx, far) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return dial(t, client.Conn(near), configure)
}

// WithRevision returns a function that makes a client use only the revision r.
func WithRevision(r mcp.Revision) func(*client.Dialer) {
	return func(d *client.Dialer) { d.Revision = r }
}

// Transport is a transport that can connect a client to a server in a test.
type Transport struct {
	// Name is the name of the transport, such as "http".
	Name string
	// Supports reports whether a revision of the protocol has the transport.
	Supports func(mcp.Revision) bool
	// Dial connects a client to s; see the function [Dial].
	Dial func(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client
}

// Transports returns the transports that make a difference to a server. A connection in memory stands in for stdio,
// from which it differs only in the framing of messages.
func Transports() []Transport {
	all := func(mcp.Revision) bool { return true }
	return []Transport{
		{"memory", all, Dial},
		{"http", func(r mcp.Revision) bool { return r != mcp.V20241105 }, DialHTTP},
		{"http+sse", func(r mcp.Revision) bool { return r == mcp.V20241105 }, DialHTTP},
	}
}

// Everywhere runs f as a subtest in every revision, on every transport of the revision, such as 2025-11-25/memory or
// 2025-11-25/http. Each subtest gets a new server from newServer, and a new client, which the functions configure as
// for [Dial].
func Everywhere(t *testing.T, newServer func() *server.Server, f func(t *testing.T, c *client.Client),
	configure ...func(*client.Dialer)) {
	t.Helper()
	for _, r := range mcp.Revisions() {
		for _, tr := range Transports() {
			if !tr.Supports(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				f(t, tr.Dial(t, newServer(), append([]func(*client.Dialer){WithRevision(r)}, configure...)...))
			})
		}
	}
}

// DialHTTP is like [Dial], but over HTTP on the loopback interface. It uses HTTP+SSE, a deprecated transport
// (SEP-2596), in 2024-11-05, and Streamable HTTP in later revisions.
func DialHTTP(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	check(t, s)
	endpoint := httptest.NewUnstartedServer(s)
	serving, end := context.WithCancel(context.Background())
	endpoint.Config.BaseContext = func(net.Listener) context.Context { return serving }
	endpoint.Start()
	t.Cleanup(func() { // s itself may serve the next test
		end()
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return dial(t, client.URL(endpoint.URL), configure)
}

// check fails the test with the reason for which s cannot serve. A client would only lose its connection.
func check(t testing.TB, s *server.Server) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatalf("dial: %v", err)
	}
}

func dial(t testing.TB, target client.Target, configure []func(*client.Dialer)) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d := &client.Dialer{}
	for _, f := range configure {
		f(d)
	}
	c, err := d.Dial(ctx, target)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
