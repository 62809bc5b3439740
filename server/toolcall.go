package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

var callToolMembers = []string{"name", "arguments", "_meta", "task", "inputResponses", "requestState"}

// resolveTool returns the *toolEntry that the client has named.
func (s *Server) resolveTool(ctx context.Context, c *rpc.Call) (any, []string, error) {
	if err := checkNames(c.Params(), callToolMembers...); err != nil {
		return nil, nil, err
	}
	name, err := textParam(c, "name", "name of a tool")
	if err != nil {
		return nil, nil, err
	}
	entry, ok, err := findFor(ctx, s, &toolKind, c.Principal(), name)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown tool: %.128q", name)
	}
	return entry, entry.scopes, nil
}

// callTool serves tools/call.
func (s *Server) callTool(ctx context.Context, c *rpc.Call) (any, error) {
	entry := c.Target.Entry.(*toolEntry)
	arguments, err := argumentsOf(c.Params())
	if err == nil && len(entry.mirrored) > 0 {
		err = c.CheckMirror(entry.mirrored, arguments)
	}
	if err != nil {
		return nil, err
	}
	c.Ran = true
	if s.runsTasks.Load() {
		if result, err, done := s.callTask(ctx, c, entry, arguments); done {
			return result, err
		}
	}
	if parker, ok := c.InputRequester.(rpc.Parker); ok && (entry.parked || entry.task != nil) &&
		mayPark(c, parker, entry) {
		return s.callParked(ctx, c, parker, entry, arguments)
	}
	result, err := s.undecodedResult(ctx, c, entry, arguments)
	switch {
	case err != nil:
		return nil, err
	case isUndecoded(result):
		return s.forwarded(c, result)
	}
	return result, nil
}

// CallTool calls another tool of the server from the handler of a tool, within the same call: the other tool can report
// progress and ask the client. Arguments must be a JSON object; nil means an empty one. The tool may come from any
// catalog of the caller, and need not be listed. Arguments and result are validated. If the arguments are invalid or
// the handler returns an error, the result has IsError set. Middleware, limits, [AsTask] and [Parked] apply only to the
// tool that the client called. A tool must not call itself, directly or through others.
//
// CallTool returns an *auth.ScopeError if the caller lacks scopes of [RequireScopes], a *jsonrpc.Error that the handler
// returned, call.ErrNoCall outside of a handler, or an error about an unknown name.
func (s *Server) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	c := rpc.From(ctx)
	if c == nil {
		return nil, call.ErrNoCall
	}
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	entry, ok, err := findFor(ctx, s, &toolKind, c.Principal(), name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("unknown tool: %.128q", name)
	case name == c.Name():
		return nil, fmt.Errorf("tool %q cannot call itself", name)
	case !isObject(arguments):
		return nil, fmt.Errorf("the arguments of tool %q must be an object", name)
	}
	if err := auth.Require(ctx, entry.scopes...); err != nil {
		return nil, err
	}
	return s.undecodedResult(ctx, c, entry, arguments)
}

// argumentsOf returns the arguments of a call, an object.
func argumentsOf(params *jsonrpc.Members) (json.RawMessage, error) {
	raw, given := params.Get("arguments")
	switch {
	case !given, string(raw) == "null": // some clients send null for no arguments
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.arguments must be an object")
	}
	return raw, nil
}

// result runs the handler and returns the result of the call. An error is one of the protocol.
func (s *Server) result(ctx context.Context, c *rpc.Call, entry *toolEntry,
	arguments json.RawMessage) (*mcp.CallToolResult, error) {
	result, err := s.undecodedResult(ctx, c, entry, arguments)
	if err == nil && isUndecoded(result) {
		return decodeForwarded(result)
	}
	return result, err
}

// undecodedResult is as result, but does not decode the result of another server; see isUndecoded. A panic of the
// handler becomes an error without details, and so does runtime.Goexit.
func (s *Server) undecodedResult(
	ctx context.Context, c *rpc.Call, entry *toolEntry, arguments json.RawMessage,
) (result *mcp.CallToolResult, err error) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			s.logger().ErrorContext(ctx, "panic in the handler of a tool", "tool", entry.tool.Name, "panic", v,
				"stack", string(debug.Stack()))
			result, err = errorResult(errFailedUnexpectedly.Error()), nil
		} else if !returned {
			s.logger().ErrorContext(ctx, "runtime.Goexit in the handler of a tool", "tool", entry.tool.Name,
				"stack", string(debug.Stack()))
			c.ExitResult = errorResult(errFailedUnexpectedly.Error())
		}
	}()
	result, err = entry.handle(ctx, arguments)
	returned = true
	if err == nil && result == nil {
		err = errNoResult
	}
	if err != nil {
		if c.IsProtocolError(err) {
			return nil, err
		}
		return errorResult(err.Error()), nil
	}
	if entry.output != nil && !result.IsError {
		if !utf8.Valid(result.StructuredContent) { // what will be sent is checked
			copied := *result
			copied.StructuredContent = jsonscan.AppendUTF8(nil, result.StructuredContent)
			result = &copied
		}
		if err = errNoStructured; result.StructuredContent != nil {
			err = entry.output.Validate(result.StructuredContent)
		}
	}
	if err != nil {
		s.logger().ErrorContext(ctx, "a tool's result does not match its output schema", "tool", entry.tool.Name,
			"error", err)
		return errorResult("the tool failed: its result does not match its output schema"), nil
	}
	if isRelayed(&result.ResultBase) && !isUndecoded(result) {
		copied := *result
		copied.ResultBase = relayed(result.ResultBase)
		result = &copied
	}
	if err := s.checkMeta(result.Meta); err != nil {
		return nil, fmt.Errorf("tool %q: invalid result: %w", entry.tool.Name, err)
	}
	return result, nil
}

var (
	errFailedUnexpectedly = errors.New("the tool failed unexpectedly")
	errNoStructured       = errors.New("the structured content required by the output schema is missing")
)

// invalidArguments returns the error for arguments that do not match their schema. That of a tool is a
// tool error, so that the model can correct them (2025-11-25, server/tools, Error Handling).
func invalidArguments(err error) error {
	var invalid *schema.ValidationError
	if errors.As(err, &invalid) {
		return errors.New("invalid arguments: " + invalid.Describe("arguments"))
	}
	return fmt.Errorf("invalid arguments: %w", err)
}
