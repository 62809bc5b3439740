package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ErrResourceNotFound is in the errors of [Client.ReadResource] for a URI that names
// nothing, whichever of the protocol's codes the server reports it with.
var ErrResourceNotFound = errors.New("resource not found")

// ReadResource reads a resource. Timeouts.Read bounds the wait, unless an option says
// otherwise. For a URI that names nothing the error is [ErrResourceNotFound]; in it is
// the *jsonrpc.Error, as for everything else that the server reports.
//
// What a server of 2026-07-28 says is fresh for a while is not asked for again meanwhile:
// see [Cache] and [WithRefresh]. A read is asked for once more when the connection was lost before the result came.
func (c *Client) ReadResource(ctx context.Context, uri string, options ...CallOption) (*mcp.ReadResourceResult, error) {
	params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
	result, err := get[mcp.ReadResourceResult](ctx, c, rpc.Request{Method: mcp.MethodReadResource, Name: uri, Params: params}, options)
	if isResourceNotFound(err) {
		return nil, fmt.Errorf("%w: %w", ErrResourceNotFound, err)
	}
	return result, err
}

// isResourceNotFound reports whether a server says that there is no such resource: by
// a code until 2025-11-25, and since by one that says other things too, with the URI as
// its data (2026-07-28, server/resources, Error Handling).
func isResourceNotFound(err error) bool {
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) {
		return false
	}
	switch reported.Code {
	case mcp.CodeResourceNotFound:
		return true
	case jsonrpc.CodeInvalidParams:
		var data struct {
			URI *string `json:"uri"`
		}
		return json.Unmarshal(reported.Data, &data) == nil && data.URI != nil
	}
	return false
}

// get sends a request that changes nothing at the server, and decodes its result.
func get[Result any](ctx context.Context, c *Client, req rpc.Request, options []CallOption) (*Result, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	raw, _, err := c.fetch(ctx, req, o)
	if err != nil {
		return nil, err
	}
	result := new(Result)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidResponse, req.Method, err)
	}
	return result, nil
}
