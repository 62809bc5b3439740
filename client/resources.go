package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ErrResourceNotFound is in the errors of [Client.ReadResource] if the server reports that
// the resource does not exist. Revisions of the protocol use different codes for it.
var ErrResourceNotFound = errors.New("resource not found")

// ReadResource reads a resource. It takes a fresh result from the [Cache]; see
// [WithRefresh]. The time-out is Timeouts.Read.
//
// An error that the server reports is a *jsonrpc.Error; if the resource does not exist, it
// is also an [ErrResourceNotFound]. If the connection is lost, ReadResource reconnects and
// sends the request once more.
func (c *Client) ReadResource(ctx context.Context, uri string, options ...CallOption) (*mcp.ReadResourceResult, error) {
	params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
	result, err := get[mcp.ReadResourceResult](ctx, c, outbound.Request{Method: mcp.MethodReadResource, Name: uri, Params: params}, options)
	if isResourceNotFound(err) {
		return nil, fmt.Errorf("%w: %w", ErrResourceNotFound, err)
	}
	return result, err
}

// isResourceNotFound reports whether a server reports that a resource does not exist: by a
// code of its own until 2025-11-25, then by CodeInvalidParams with the URI in the data
// (2026-07-28, server/resources, Error Handling).
func isResourceNotFound(err error) bool {
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) {
		return false
	}
	switch reported.Code {
	case mcp.CodeResourceNotFound:
		return true
	case jsonrpc.CodeInvalidParams:
		uri, ok := jsonrpc.Get(reported.Data, "uri")
		return ok && uri[0] == '"'
	}
	return false
}

// get sends a request without side effects and decodes its result.
func get[Result any](ctx context.Context, c *Client, req outbound.Request, options []CallOption) (*Result, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	raw, cached, err := c.fetch(ctx, req, o)
	if err != nil {
		return nil, err
	}
	result, raw, err := decodeResult[Result](c, req.Method, raw, cached)
	if err == nil && o.keepSource {
		setSource(result, raw)
	}
	return result, err
}

// setSource sets the Source of a result of a prompt or resource.
func setSource(result any, raw json.RawMessage) {
	switch r := result.(type) {
	case *mcp.ReadResourceResult:
		r.Source = raw
	case *mcp.GetPromptResult:
		r.Source = raw
	}
}
