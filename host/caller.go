package host

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
)

// withCaller returns the context of a request to the server, which has the caller of the request that a
// handler serves, and counts the requests of the server.
func (s *supervisor) withCaller(ctx context.Context) context.Context {
	input := s.local
	if c := rpc.From(ctx); s.host.forwards && c != nil {
		caller := rpc.CallerOf(ctx)
		if caller.Key == nil {
			caller = c.Caller()
		}
		input |= c.InputKinds()
		caller.User = rpc.UserOf(ctx, c)
		caller.Input, caller.Declared, caller.Limited = input, c.DeclaredInput()|s.local, true
		if caller.Returns && !caller.Session {
			// A session with the server declares capabilities once. Programs of one principal can have several.
			caller.Key = capable{caller.Key, caller.Declared}
		}
		ctx = rpc.WithCaller(ctx, caller)
	}
	if input != 0 {
		ctx = withInputs(ctx)
	}
	return ctx
}

// capable is the key of a principal whose requests declare the same kinds of input requests.
type capable struct {
	principal any
	declared  rpc.InputKinds
}
