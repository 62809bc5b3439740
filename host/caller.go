package host

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
)

// withCaller returns the context of a request to the server, which has the caller of the request that a
// handler serves.
func (s *supervisor) withCaller(ctx context.Context) context.Context {
	c := rpc.From(ctx)
	if !s.host.Forward || c == nil {
		return ctx
	}
	caller := rpc.CallerOf(ctx)
	if caller.Key == nil {
		caller = c.Caller()
	}
	input := c.InputKinds() | s.local
	caller.Input = &input
	return rpc.WithCaller(ctx, caller)
}
