package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// Progress reports the progress of the call of ctx to its client: done of total, and a text
// for people. A total of 0 is unknown. Nothing is sent, and no error returned, when done does
// not exceed its last value, or when the client has not asked for progress.
//
// It returns call.ErrCallDone after the handler has returned or the call was cancelled, and
// call.ErrNoCall if ctx is not the context of a handler. Safe for concurrent use.
// (2026-07-28, basic/patterns/progress.)
func Progress(ctx context.Context, done, total float64, text string) error {
	c := rpc.From(ctx)
	if c == nil {
		return rpc.ErrNoCall
	}
	return c.Progress(ctx, done, total, text)
}

// PeerOf returns the name and the capabilities that the client of the call of ctx declares.
// The name is for display and logs, not for decisions. Outside of a handler it returns the
// zero Peer.
func PeerOf(ctx context.Context) rpc.Peer {
	if c := rpc.From(ctx); c != nil {
		return c.Peer
	}
	return rpc.Peer{}
}

// PrincipalOf returns the authenticated caller of the call of ctx. Outside of a handler it
// returns principal.Anonymous.
func PrincipalOf(ctx context.Context) principal.Principal {
	if c := rpc.From(ctx); c != nil {
		return c.Principal
	}
	return principal.Anonymous
}
