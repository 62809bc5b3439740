package server

import (
	"context"
	"encoding/json"

	"github.com/parley-mcp/parley/call"
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
		return call.ErrNoCall
	}
	return c.Progress(ctx, done, total, text)
}

// Notify sends a notification that belongs to the call of ctx to its client, ahead of the
// response. It is for the notifications that extensions define. Params must be a JSON
// object, or nil. Nothing is sent, and no error returned, if the client cannot receive it.
//
// It returns call.ErrCallDone after the handler has returned or the call was cancelled, and
// call.ErrNoCall if ctx is not the context of a handler. Safe for concurrent use.
func Notify(ctx context.Context, method string, params json.RawMessage) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	return c.Notify(ctx, method, params)
}

// PeerOf returns the name and the capabilities that the client of the call of ctx declares.
// The name is for display and logs, not for decisions. Outside of a handler it returns the
// zero Peer.
func PeerOf(ctx context.Context) call.Peer {
	if c := rpc.From(ctx); c != nil {
		return c.Peer()
	}
	return call.Peer{}
}

// PrincipalOf returns the authenticated caller of the call of ctx. Outside of a handler it
// returns principal.Anonymous.
func PrincipalOf(ctx context.Context) principal.Principal {
	if c := rpc.From(ctx); c != nil {
		return c.Principal()
	}
	return principal.Anonymous
}
