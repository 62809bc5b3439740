package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Hook can change and reject tool calls, prompts, reads of resources, completions and requests of extensions, and their
// results, and can reject subscriptions. A Host with several hooks calls them in order. An error or a panic of a
// function rejects the request or the result. The functions must be safe for concurrent use and respect ctx. In
// 2026-07-28 a request runs again when its caller has answered a question; then Request is called again.
type Hook struct {
	// Request, if set, is called with each request before the policy decides about it. It can set
	// r.Arguments to another JSON object; changes of other fields have no effect.
	Request func(ctx context.Context, r *Request) error

	// Response, if set, is called with the result of the request, a JSON object as the server sends
	// it. It returns the result for the caller, and must not modify the argument. It is not called
	// for a request that fails with a JSON-RPC error, or for a subscription; tools that fail have results.
	Response func(ctx context.Context, r *Request, result json.RawMessage) (json.RawMessage, error)
}

// beforeRequest calls the hooks with a request.
func (h *Host) beforeRequest(ctx context.Context, r *Request) error {
	for i := range h.Hooks {
		f := h.Hooks[i].Request
		if f == nil {
			continue
		}
		seen := *r
		if err := h.contain("Hook.Request", func() error { return f(ctx, &seen) }); err != nil {
			return r.denied("a hook rejects it", err)
		}
		if r.Arguments == nil && seen.Arguments == nil {
			continue
		}
		if err := checkObject(seen.Arguments); err != nil {
			return r.denied("the arguments of a hook are invalid", err)
		}
		r.Arguments = seen.Arguments
	}
	return nil
}

// afterResponse calls the hooks with a result, and returns the result for the caller.
func (h *Host) afterResponse(ctx context.Context, r *Request, result json.RawMessage) (json.RawMessage, error) {
	for i := range h.Hooks {
		f := h.Hooks[i].Response
		if f == nil {
			continue
		}
		err := h.contain("Hook.Response", func() (err error) {
			result, err = f(ctx, r, result)
			return err
		})
		if err == nil {
			err = checkObject(result)
		}
		if err != nil {
			return nil, r.denied("a hook rejects the result", err)
		}
	}
	return result, nil
}

// hasResponseHook reports whether afterResponse may change a result.
func (h *Host) hasResponseHook() bool {
	for i := range h.Hooks {
		if h.Hooks[i].Response != nil {
			return true
		}
	}
	return false
}

func checkObject(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] != '{' {
		return errors.New("must be a JSON object")
	}
	return jsonrpc.Check(raw, jsonrpc.Limits{})
}
