package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// Progress tells the client of the call that ctx belongs to how far it is: done of
// total, and a sentence for people. A total of 0 is unknown. Values that do not
// exceed the last one are not sent, nor is anything to a client that has not asked
// for progress; both are no errors.
//
// It returns call.ErrCallDone after the handler has returned, call.ErrNoCall for a
// context that is not a handler's. Safe for concurrent use. (2026-07-28,
// basic/patterns/progress.)
func Progress(ctx context.Context, done, total float64, text string) error {
	c := rpc.From(ctx)
	if c == nil {
		return rpc.ErrNoCall
	}
	return c.Progress(ctx, done, total, text)
}

// PeerOf returns what the client of the call that ctx belongs to says of itself:
// for display and logs, never for decisions. Outside a handler it is the zero Peer.
func PeerOf(ctx context.Context) rpc.Peer {
	if c := rpc.From(ctx); c != nil {
		return c.Peer
	}
	return rpc.Peer{}
}

// PrincipalOf returns who is calling, as far as that has been authenticated.
// Outside a handler it is principal.Anonymous.
func PrincipalOf(ctx context.Context) principal.Principal {
	if c := rpc.From(ctx); c != nil {
		return c.Principal
	}
	return principal.Anonymous
}
