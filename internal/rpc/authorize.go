package rpc

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Feature finds the targets of calls, such as tools. It is safe for concurrent use.
type Feature interface {
	// Handles reports whether there is a handler for a method. It may return another result later.
	Handles(method string) bool
	// Resolve returns the target of a call and the scopes that it needs, which are valid with an error, too. It looks
	// the target up once: the target that is returned is authorized and serves the call. Ctx carries the call.
	Resolve(ctx context.Context, c *Call) (t Target, needs []string, err error)
}

// Target serves a call.
type Target struct {
	Serve Handler
	Entry any // for Serve: what the call names, such as a tool
}

type ofEra struct{}

// EraTarget returns the target of a call whose method belongs to an era, such as initialize. The engine does not
// resolve the call, but checks the scopes of its method.
func EraTarget(serve Handler) Target { return Target{Serve: serve, Entry: ofEra{}} }

// Handlers is a Feature without entries: the handlers by method.
type Handlers map[string]Handler

// Handles implements Feature.
func (h Handlers) Handles(method string) bool { return h[method] != nil }

// Resolve implements Feature.
func (h Handlers) Resolve(_ context.Context, c *Call) (Target, []string, error) {
	if serve := h[c.Method()]; serve != nil {
		return Target{Serve: serve}, nil, nil
	}
	return Target{}, nil, MethodNotFound(c)
}

// MethodNotFound returns the error for a call of a method that a server does not have.
func MethodNotFound(c *Call) error {
	const text = "method %q is not available in revision %s of this server"
	return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, text, c.Method(), c.Revision())
}

// available reports whether a client of revision r can send a method as a request, or as a notification.
func available(method string, r mcp.Revision, notification bool) bool {
	if revision.IsNotification(method) != notification {
		return false
	}
	if revision.LeavesToExtensions(method, r) {
		return true
	}
	row := revision.Lookup(method)
	return row != nil && row.In(r) && (!notification || row.From(r)&revision.Client != 0)
}

// AcceptsNotification reports whether the engine has a handler for a notification from a client
// of revision r. The eras handle most notifications themselves.
func (e *Engine) AcceptsNotification(method string, r mcp.Revision) bool {
	return available(method, r, true) && e.feature.Handles(method)
}

// resolve sets the target of a call, and returns the scopes that the call needs, also with an error: those of all
// requests, of the method and of the target.
func (e *Engine) resolve(ctx context.Context, c *Call) (needs []string, err error) {
	var t Target
	switch _, own := c.Target.Entry.(ofEra); {
	case own:
		t = c.Target
	case available(c.Method(), c.Revision(), c.ID().IsZero()):
		t, needs, err = e.feature.Resolve(ctx, c)
	default:
		err = MethodNotFound(c)
	}
	if e.Auth != nil {
		needs = union(e.Auth.MethodScopes[c.Method()], needs)
		if c.Principal() != principal.Local && !c.ID().IsZero() { // the transport authorizes notifications
			needs = union(e.Auth.Scopes, needs)
		}
	}
	if t.Serve != nil && len(needs) > 0 {
		t.Serve = requiring(needs, t.Serve)
	}
	c.Target, c.resolved = t, err == nil
	return needs, err
}

// requiring returns a handler whose errors about missing scopes name the scopes that the call needed before it was
// served, too. A client may ask for exactly the scopes of an error, and the next token must still allow the call.
func requiring(needs []string, serve Handler) Handler {
	return func(ctx context.Context, c *Call) (any, error) {
		result, err := serve(ctx, c)
		if missing, ok := errors.AsType[*auth.ScopeError](err); ok {
			err = &auth.ScopeError{Needed: union(needs, missing.Needed)}
		}
		return result, err
	}
}

func union(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return challenge.Union(a, b)
}

// Authorize checks the scopes of calls before they are served, all together, for a transport that needs the outcome
// then. Without calls it checks the scopes that every request needs. The error is nil or an *auth.ScopeError. The calls
// fail with it when they are served. Otherwise those whose targets were found are served by these, without another
// check; Serve looks for the targets of the others.
func (e *Engine) Authorize(ctx context.Context, calls ...*Call) error {
	var needs []string
	if len(calls) == 0 && e.Auth != nil {
		needs = e.Auth.Scopes
	}
	for _, c := range calls {
		of, _ := e.resolve(NewContext(ctx, c), c) // Serve returns the error
		needs = union(needs, of)
	}
	err := auth.Require(ctx, needs...)
	if err != nil {
		for _, c := range calls {
			c.Target, c.resolved = Target{Serve: func(context.Context, *Call) (any, error) { return nil, err }}, true
		}
	}
	return err
}
