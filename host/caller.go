package host

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// session identifies a session of a client.
type session struct {
	principal principal.Principal
	id        string // of a session that has one
	notifier  any    // identifies other sessions, one for each connection
}

// withCaller returns the context of a request to the server, which has the caller of the request that a
// handler serves.
func (s *supervisor) withCaller(ctx context.Context) context.Context {
	c := rpc.From(ctx)
	if !s.host.Forward || c == nil {
		return ctx
	}
	caller := rpc.CallerOf(ctx)
	if caller.Key == nil {
		caller = c.AsTask().Caller
	}
	if caller.Key == nil {
		caller = callerOfCall(c)
	}
	input := c.InputKinds() | s.local
	caller.Input = &input
	return rpc.WithCaller(ctx, caller)
}

// callerOfCall returns the caller of a request: its session or, in 2026-07-28, its principal. Requests of
// 2026-07-28 without authentication have nothing in common, so each has a caller of its own.
func callerOfCall(c *rpc.Call) rpc.Caller {
	who := c.Principal()
	switch {
	case c.SessionNotifier != nil && c.Source() != "":
		return rpc.Caller{Key: session{principal: who, id: c.Source()}, Returns: true, Session: true}
	case c.SessionNotifier != nil:
		return rpc.Caller{Key: session{notifier: c.SessionNotifier}, Returns: true, Session: true}
	case who == principal.Anonymous:
		return rpc.Caller{Key: c}
	}
	return rpc.Caller{Key: who, Returns: true}
}
