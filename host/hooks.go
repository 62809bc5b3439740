package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/parley-mcp/parley/jsonrpc"
)

// beforeRequest calls OnRequest, if it is set, with a request.
func (h *Host) beforeRequest(ctx context.Context, r *Request) error {
	if h.OnRequest == nil {
		return nil
	}
	seen := *r
	if err := h.contain("OnRequest", func() error { return h.OnRequest(ctx, &seen) }); err != nil {
		return r.denied("a hook rejects it", err)
	}
	if r.Arguments == nil && seen.Arguments == nil {
		return nil
	}
	if err := checkObject(seen.Arguments); err != nil {
		return r.denied("the arguments of a hook are invalid", err)
	}
	r.Arguments = seen.Arguments
	return nil
}

// afterResponse passes a result to OnResult and returns the result for the caller.
func (h *Host) afterResponse(ctx context.Context, r *Request, result json.RawMessage) (json.RawMessage, error) {
	err := h.contain("OnResult", func() (err error) {
		result, err = h.OnResult(ctx, r, result)
		return err
	})
	if err == nil {
		err = checkObject(result)
	}
	if err != nil {
		return nil, r.denied("a hook rejects the result", err)
	}
	return result, nil
}

func checkObject(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] != '{' {
		return errors.New("must be a JSON object")
	}
	return jsonrpc.Check(raw, jsonrpc.Limits{})
}
