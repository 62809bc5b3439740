package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestLogLevelThatCouldNotBeSetIsSetAgain(t *testing.T) {
	s := &server.Server{Name: "s"}
	server.AddTool(s, mcp.Tool{Name: "t"}, func(context.Context, struct{}) (string, error) { return "", nil })
	var requests atomic.Int32
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodSetLevel && requests.Add(1) == 1 {
				return nil, errors.New("not now")
			}
			return next(ctx, c)
		}
	}}
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125))
	for range 3 {
		if _, err := c.CallTool(t.Context(), "t", nil, client.WithLogLevel(mcp.LevelDebug)); err != nil {
			t.Fatal(err)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("logging/setLevel was sent %d times, want once more after the error", n)
	}
}
