package streamserver

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// requestLegacy serves or queues a request of the session.
func (t *turn) requestLegacy(ctx context.Context, m *jsonrpc.Message) {
	c := t.c
	switch {
	case !c.session.Initialized() || m.Method == mcp.MethodInitialize:
		// In order: the handshake decides how to read the next message.
		var reply []byte
		c.session.Serve(ctx, &reply, m, c.conn)
		c.write(ctx, reply)
	case m.Method == mcp.MethodPing:
		c.ping(ctx, m)
	default:
		request, fault := c.session.Accept(ctx, m, c.conn)
		t.enqueue(ctx, job{request, c.paces.of(m), c.slots}, m.ID, fault)
	}
}

// maxPings limits the concurrent pings.
const maxPings = 16

var errTooManyPings = &call.OverloadError{Limit: "concurrent pings", RetryAfter: time.Second}

// ping serves a ping in another goroutine, because middleware may block and may wait for
// the next message. A ping is not queued: the client wants to know whether the server is
// alive.
func (c *connection) ping(ctx context.Context, m *jsonrpc.Message) {
	if c.pings.Add(1) > maxPings {
		c.pings.Add(-1)
		c.writeError(ctx, m.ID, c.Legacy.Engine.Overloaded(ctx, m.Method, errTooManyPings))
		return
	}
	counted := c.begin() // false during a shutdown, which still answers pings
	go func() {
		var reply []byte
		c.session.Serve(ctx, &reply, m, nil)
		c.write(ctx, reply)
		c.pings.Add(-1)
		if counted {
			c.running.Done()
		}
	}()
}
