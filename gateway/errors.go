package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// toolError returns the error for the caller of a tool. Errors that are meant for the
// caller are returned unchanged. Other errors get the name of the server, which the
// caller may not know.
func (g *Gateway) toolError(ctx context.Context, serverName string, err error) error {
	var reported *jsonrpc.Error
	var down *host.DownError
	var denied *host.DeniedError
	var required *call.URLRequiredError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &down), errors.As(err, &denied):
		return err
	case errors.As(err, &required) && !canOpenURLs(ctx):
		return fmt.Errorf("server %q: %s", serverName, required)
	case !errors.As(err, &reported):
		return fmt.Errorf("server %q: %w", serverName, err)
	case reported.Code == mcp.CodeURLElicitationRequired:
		return g.urlRequired(ctx, serverName, reported)
	case reported.Code == mcp.CodeMissingCapability:
		// The gateway declares the capabilities of its client, so that is what the client must declare.
		var missing mcp.MissingCapabilityData
		if schema.Decode(reported.Data, &missing) == nil {
			return &call.CapabilityError{Required: missing.RequiredCapabilities}
		}
	case isForCaller(reported.Code):
		return reported
	}
	// Do not wrap the error: the client would receive its code as an error of the gateway.
	return fmt.Errorf("server %q returned an error: %v", serverName, reported)
}

// canOpenURLs reports whether the client of the call can ask its user to open a URL. Other clients receive the URL as text.
func canOpenURLs(ctx context.Context) bool {
	c := rpc.From(ctx)
	return c != nil && c.CheckElicitURL() == nil
}

// isForCaller reports whether an error is about the arguments, or has a code of the
// server's own. Other codes are about the connection between the gateway and the server.
func isForCaller(code int64) bool {
	return code == jsonrpc.CodeInvalidParams || code < firstReservedCode || code > lastReservedCode
}

// The codes that JSON-RPC reserves (JSON-RPC 2.0, section 5.1).
const (
	firstReservedCode = -32768
	lastReservedCode  = -32000
)

// protocolError returns the error for a request for a resource, a prompt or a
// completion. It converts the result of toolError to a *jsonrpc.Error, because the
// client does not receive the text of other errors.
func (g *Gateway) protocolError(ctx context.Context, serverName string, err error) error {
	if errors.Is(err, client.ErrResourceNotFound) {
		return server.ErrResourceNotFound
	}
	var data json.RawMessage
	if reported := new(jsonrpc.Error); errors.As(err, &reported) {
		data = reported.Data
	}
	err = g.toolError(ctx, serverName, err)
	var reported *jsonrpc.Error
	var required *call.URLRequiredError
	if errors.As(err, &reported) || errors.As(err, &required) || errors.As(err, new(*call.CapabilityError)) {
		return err
	}
	code := jsonrpc.CodeInternalError
	if errors.As(err, new(*host.DeniedError)) {
		code = jsonrpc.CodeInvalidRequest
	}
	failed := jsonrpc.Errorf(code, "%s", err)
	failed.Data = data
	return failed
}
