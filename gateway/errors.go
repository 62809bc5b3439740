package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
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
		// The gateway declares what its client declares, so the client must declare the missing capability.
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

// canOpenURLs reports whether the client of the call can ask its user to open the URL of an error. Other clients
// receive the URL as text. An error needs no event stream, so this does not depend on server.InputCapabilities, which
// is about questions.
func canOpenURLs(ctx context.Context) bool {
	c := call.From(ctx)
	return c != nil && c.Revision() >= mcp.V20251125 && c.Peer().Capabilities.Elicitation.SupportsURL()
}

// isForCaller reports whether an error is about the arguments, or has a code that the
// server has defined itself. Other codes concern the connection between the gateway and
// the server.
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
	if errors.Is(err, call.ErrResourceNotFound) {
		return call.ErrResourceNotFound
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

// urlRequired returns the error that asks the client to let its user open URLs. Clients of 2025-11-25 receive
// the server's error with only the messages for the user changed.
func (g *Gateway) urlRequired(ctx context.Context, serverName string, reported *jsonrpc.Error) error {
	var required mcp.URLElicitationRequiredData
	if err := schema.Decode(reported.Data, &required); err != nil {
		return fmt.Errorf("server %q requires URLs, but its error is invalid: %v", serverName, err)
	}
	c := call.From(ctx)
	if c == nil || c.Revision() == mcp.V20251125 {
		attributed := *reported
		attributed.Data = g.attributeURLs(serverName, reported.Data)
		return &attributed
	}
	e := &call.URLRequiredError{}
	for _, one := range required.Elicitations {
		e.URLs = append(e.URLs, call.RequiredURL{URL: one.URL,
			Message: g.host.Attribute(serverName, one.Message), ID: one.ElicitationID})
	}
	return e
}

// attributeURLs attributes the messages in the data of an error that requires URLs. Other fields do not change.
func (g *Gateway) attributeURLs(serverName string, data json.RawMessage) json.RawMessage {
	return mapMember(data, "elicitations", func(list json.RawMessage) json.RawMessage {
		var elicitations []json.RawMessage
		_ = schema.Decode(list, &elicitations) // it has been decoded before
		mapped := []byte{'['}
		for i, one := range elicitations {
			if i > 0 {
				mapped = append(mapped, ',')
			}
			mapped = append(mapped, mapMember(one, "message", func(message json.RawMessage) json.RawMessage {
				return jsonrpc.AppendString(nil, g.host.Attribute(serverName, jsonrpc.Unquote(message)))
			})...)
		}
		return append(mapped, ']')
	})
}

// mapMember returns an object in which f has replaced the value of one key.
func mapMember(object json.RawMessage, name string, f func(json.RawMessage) json.RawMessage) json.RawMessage {
	mapped := []byte{'{'}
	for member, value := range jsonrpc.All(object) {
		if len(mapped) > 1 {
			mapped = append(mapped, ',')
		}
		if member == name {
			value = f(value)
		}
		mapped = append(append(jsonrpc.AppendString(mapped, member), ':'), value...)
	}
	return append(mapped, '}')
}
