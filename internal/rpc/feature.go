package rpc

import (
	"context"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Feature finds the targets of calls, such as tools. It is safe for concurrent use.
type Feature interface {
	// Handles reports whether there is a handler for a method. It may return another result later.
	Handles(method string) bool
	// Resolve returns the target of a call and the scopes that it needs, which are valid with an error, too. It looks
	// the target up once: the target that is returned is authorized and serves the call. Ctx carries the call.
	Resolve(ctx context.Context, c *Call) (t Target, needs []string, err error)
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
