package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/httpserver"
	"github.com/parley-mcp/parley/principal"
)

// PrincipalOf returns the authenticated caller of a call. It returns principal.Anonymous without authentication, and if
// ctx is not the context of a handler. In a function passed to [WhileSubscribed], it returns the caller in whose
// catalog the resource is, if it comes from [Server.Catalogs].
func PrincipalOf(ctx context.Context) principal.Principal {
	if c := rpc.From(ctx); c != nil {
		return c.Principal()
	}
	return rpc.CallerOf(ctx).Owner // see subscriberContext
}

// HeaderOf returns those headers of a call's HTTP request that [Server].Headers names. It returns nil if the request
// contains none of them, on other transports, and if ctx is not the context of a handler or middleware. The headers may
// be secrets, so do not log them. They must not be modified.
func HeaderOf(ctx context.Context) http.Header { return httpserver.HeaderOf(ctx) }

// Progress reports the progress of a call to its client: done of total, in any unit, and a text for the user. A total
// of 0 means unknown. Progress sends nothing and returns nil if done does not exceed the last value, or if the client
// did not ask for progress. In a task of 2026-07-28 the client sees only the text; see [AsTask].
//
// It returns an error if done is not finite, call.ErrCallDone after the handler has returned or
// the call was cancelled, and call.ErrNoCall if ctx is not the context of a handler. Safe for
// concurrent use. (2026-07-28, basic/patterns/progress.)
func Progress(ctx context.Context, done, total float64, text string) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	return c.Progress(ctx, done, total, text)
}

// Notify sends a notification about a call to its client, before the response. It is for notifications that extensions
// define. Params must be a JSON object or nil, and Notify does not retain it. If the client cannot receive
// notifications before the response, Notify sends nothing and returns nil.
//
// It returns call.ErrCallDone after the handler has returned or the call was cancelled, and
// call.ErrNoCall if ctx is not the context of a handler. Safe for concurrent use.
func Notify(ctx context.Context, method string, params json.RawMessage) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	params, err := objectOrNil(method, params)
	if err != nil {
		return err
	}
	return c.Notify(ctx, method, params)
}
