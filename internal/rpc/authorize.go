package rpc

import (
	"context"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
)

// Authorize checks the scopes of calls before they are served, all together, for a transport
// that needs the outcome then. Calls that are served with the returned context are not checked
// again; they fail with the returned error, an *auth.ScopeError, if it is not nil.
//
// Serve checks the scopes of all other calls.
func (e *Engine) Authorize(ctx context.Context, calls ...*call.Call) (context.Context, error) {
	var needed []string
	if e.Scopes != nil {
		for _, c := range calls {
			needed = challenge.Union(needed, e.Scopes(c))
		}
	}
	err := auth.Require(ctx, needed...)
	return context.WithValue(ctx, authorizedKey{}, &authorized{e, err}), err
}

type authorizedKey struct{}

// authorized is the outcome of Authorize.
type authorized struct {
	engine *Engine
	err    error
}

// authorize checks the scopes of a call that is being served.
func (e *Engine) authorize(ctx context.Context, c *call.Call) error {
	if e.Scopes == nil {
		return nil
	}
	if a, ok := ctx.Value(authorizedKey{}).(*authorized); ok && a.engine == e {
		return a.err
	}
	return auth.Require(ctx, e.Scopes(c)...)
}
