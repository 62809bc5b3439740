package wiretest

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Peer is the client of a server on a byte stream.
type Peer struct {
	T    testing.TB
	Conn transport.Conn

	served chan error
}

// Connect calls serve with the server's end of a connection, and returns the client's end. The connection is closed
// when the test ends.
func Connect(t testing.TB, serve func(context.Context, transport.Conn) error) *Peer {
	near, far := transport.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	p := &Peer{t, near, make(chan error, 1)}
	go func() { p.served <- serve(ctx, far) }()
	t.Cleanup(func() {
		near.Close()
		stop()
		_ = p.Served()
	})
	return p
}

// Served waits until serve returns, and returns its error.
func (p *Peer) Served() error {
	p.T.Helper()
	select {
	case err := <-p.served:
		p.served <- err
		return err
	case <-time.After(Patience):
		p.T.Error("the connection is still being served")
		return nil
	}
}

// Send sends messages.
func (p *Peer) Send(messages ...string) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, m := range messages {
		if err := p.Conn.Write(ctx, []byte(m)); err != nil {
			p.T.Errorf("send %.200s: %v", m, err)
		}
	}
}

// Receive returns the next message, or "" at the end of the connection.
func (p *Peer) Receive() string {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	m, err := p.Conn.Read(ctx)
	if err != nil && err != io.EOF {
		p.T.Errorf("receive: %v", err)
	}
	return string(m)
}

// Ask sends a message and returns the next message of the server.
func (p *Peer) Ask(message string) string {
	p.T.Helper()
	p.Send(message)
	return p.Receive()
}

// Expect fails the test unless these messages arrive next.
func (p *Peer) Expect(want ...string) {
	p.T.Helper()
	for _, m := range want {
		if got := p.Receive(); got != m {
			p.T.Fatalf("received\n%s\nwant\n%s", got, m)
		}
	}
}

// Handshake starts a session of a revision, and returns the result of initialize.
func (p *Peer) Handshake(revision string) string {
	p.T.Helper()
	result := p.Ask(fmt.Sprintf(Initialize, revision))
	p.Send(Initialized)
	return result
}

// OnRootsChanged returns the middleware of a server that calls f when the roots of a client have changed.
func OnRootsChanged(f func(context.Context)) []call.Middleware {
	return []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.NotificationRootsListChanged && c.ID().IsZero() {
				f(ctx)
			}
			return next(ctx, c)
		}
	}}
}
