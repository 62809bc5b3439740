package streamserver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// A ping whose middleware waits for another request must not keep the connection from reading
// that request.
func TestPingInMiddlewareDoesNotBlockTheConnection(t *testing.T) {
	s := newServer(nil)
	served := make(chan struct{})
	s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.MethodCallTool: func(context.Context, *rpc.Call) (any, error) { close(served); return text("served") },
	}, s.Logger, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodPing {
				<-served
			}
			return next(ctx, c)
		}
	})
	p := connect(t, s)
	p.handshake("2025-06-18")
	p.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	p.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`)
	var both string
	for range 2 {
		both += p.receive()
	}
	if !strings.Contains(both, `"id":"ping","result":{}`) || !strings.Contains(both, `"served"`) {
		t.Errorf("got %s", both)
	}
}
