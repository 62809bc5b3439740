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

// Dial connects a client to s in memory. The functions change the Dialer's
// settings first: [Revision] is one. Connection and client are closed when the
// test ends; a failure to connect ends the test.
func Dial(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	return InMemory(t, s, configure...)
}

// Revision makes a client speak one revision only.
func Revision(r mcp.Revision) func(*client.Dialer) {
	return func(d *client.Dialer) { d.Revision = r }
}

// Transport connects a client to a server in one of the ways there are.
type Transport struct {
	Name string
	// Has reports whether a revision has the transport.
	Has  func(mcp.Revision) bool
	Dial func(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client
}

// Transports returns all transports, but for child processes, whose wire format is
// that of a socket.
func Transports() []Transport {
	all := func(mcp.Revision) bool { return true }
	return []Transport{
		{"memory", all, InMemory},
		{"socket", all, OverSocket},
		{"http", func(r mcp.Revision) bool { return r != mcp.V20241105 }, OverHTTP},
		{"http+sse", func(r mcp.Revision) bool { return r == mcp.V20241105 }, OverHTTP},
	}
}

// Everywhere runs f as a subtest on every transport of every revision, each time
// with a new client of a server that newServer makes.
func Everywhere(t *testing.T, newServer func() *server.Server, f func(t *testing.T, c *client.Client), configure ...func(*client.Dialer)) {
	t.Helper()
	for _, r := range mcp.Revisions() {
		for _, tr := range Transports() {
			if !tr.Has(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				f(t, tr.Dial(t, newServer(), append([]func(*client.Dialer){Revision(r)}, configure...)...))
			})
		}
	}
}

// InMemory connects a client to s through memory.
func InMemory(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	near, far := transport.Pipe()
	serveConn(t, s, far)
	return dial(t, client.Conn(near), configure)
}

// OverSocket connects a client to s over a TCP connection on the loopback
// interface, in the format of stdio.
func OverSocket(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer listener.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			close(accepted)
			return
		}
		accepted <- conn
	}()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	far, ok := <-accepted
	if !ok {
		t.Fatal("accept failed")
	}
	serveConn(t, s, transport.Stream(far, transport.StreamOptions{}))
	return dial(t, client.Conn(transport.Stream(near, transport.StreamOptions{MaxMessage: transport.DefaultClientMaxMessage})), configure)
}

// OverHTTP connects a client to s over HTTP on the loopback interface: the
// transport of 2024-11-05 in that revision, Streamable HTTP in the others.
func OverHTTP(t testing.TB, s *server.Server, configure ...func(*client.Dialer)) *client.Client {
	t.Helper()
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.Close()
	})
	return dial(t, client.URL(endpoint.URL), configure)
}

func serveConn(t testing.TB, s *server.Server, conn transport.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
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
