package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// maxToolName is what the protocol recommends (2026-07-28, server/tools, Tool Names).
const maxToolName = 128

// toolEntry is one tool as it is offered. It does not change.
type toolEntry struct {
	offer
	tool   mcp.Tool
	input  *schema.Schema
	output *schema.Schema // nil: structured content is not validated
	handle ToolHandler
	// mirrored are the parameters that clients over HTTP repeat in headers.
	mirrored  []schema.HeaderParam
	notSecret []string // of these headers, the program says that they hold no secrets
}

// addTool offers a tool whose schemas are compiled.
func (s *Server) addTool(e *toolEntry, options []ToolOption) error {
	e.offer = offer{name: e.tool.Name, logger: s.logger}
	for _, o := range options {
		o.ofTool(e)
	}
	if err := checkToolName(e.tool.Name); err != nil {
		return err
	}
	if !e.input.IsObject() {
		return errors.New(`the input schema must have "type": "object"`)
	}
	if e.handle == nil {
		return errNoHandler
	}
	var err error
	if e.mirrored, err = schema.Headers(e.tool.InputSchema); err != nil {
		return fmt.Errorf("input %w", err)
	}
	if err := checkMirrored(e.mirrored, e.notSecret); err != nil {
		return err
	}
	if err := s.checkMeta(e.tool.Meta); err != nil {
		return err
	}
	if err := e.detach(); err != nil {
		return err
	}
	return added(s, rpc.ToolsChanged, &s.tools, e.tool.Name, e)
}

// detach gives the entry a definition of its own, which the caller cannot change
// anymore, and which is sure to have a JSON form: one that has none would break the
// list of all.
func (e *toolEntry) detach() error {
	raw, err := e.tool.MarshalJSON()
	if err != nil {
		return fmt.Errorf("the definition cannot be encoded: %w", err)
	}
	e.tool = mcp.Tool{}
	return json.Unmarshal(raw, &e.tool)
}

func checkToolName(name string) error {
	if name == "" || len(name) > maxToolName {
		return fmt.Errorf("a tool's name has 1 to %d characters", maxToolName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
			return fmt.Errorf("a tool's name has letters, digits, _ - and . only, not %q", c)
		}
	}
	return nil
}

// listTools answers tools/list.
func (s *Server) listTools(_ context.Context, c *rpc.Call) (any, error) {
	if !s.tools.offered() {
		return methodNotFound(c)
	}
	return serveList(s, c, &s.tools, func(entries []*toolEntry, page mcp.PageInfo, hints mcp.CacheHints) any {
		result := &mcp.ListToolsResult{CacheHints: hints, PageInfo: page, Tools: make([]mcp.Tool, len(entries))}
		for i, e := range entries {
			result.Tools[i] = e.tool
		}
		return result
	})
}

var callToolMembers = []string{"name", "arguments", "_meta", "task", "inputResponses", "requestState"}

// callTool answers tools/call.
func (s *Server) callTool(ctx context.Context, c *rpc.Call) (any, error) {
	if !s.tools.offered() {
		return methodNotFound(c)
	}
	if name, ok := c.Params().CaseVariant(callToolMembers...); ok {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params member %q differs from a known one in its case", name)
	}
	raw, _ := c.Params().Get("name")
	if len(raw) == 0 || raw[0] != '"' {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.name must be a string: the name of a tool")
	}
	name := jsonrpc.Unquote(raw)
	entry, ok := s.tools.find(name, c.Principal())
	if !ok {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown tool: %.128q", name)
	}
	arguments, given := c.Params().Get("arguments")
	switch {
	case !given:
		arguments = []byte("{}")
	case arguments[0] != '{':
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.arguments must be an object")
	}
	if err := c.CheckMirror(entry.mirrored, arguments); err != nil {
		return nil, err
	}
	// What the model got wrong goes back to the model, which can mend it
	// (2025-11-25, server/tools, Error Handling).
	if err := entry.input.Validate(arguments); err != nil {
		return errorResult("invalid arguments: " + whatIsWrong(err)), nil
	}
	result, err := s.run(ctx, entry, arguments)
	if err != nil {
		if c.IsProtocolError(err) {
			return nil, err
		}
		return errorResult(err.Error()), nil
	}
	if err := entry.checkOutput(result); err != nil {
		s.logger().ErrorContext(ctx, "a tool's result does not fit its output schema", "tool", name, "error", err)
		return errorResult("the tool failed: its result does not fit its output schema"), nil
	}
	if err := s.checkMeta(result.Meta); err != nil {
		return nil, fmt.Errorf("tool %q: its result cannot be sent: %w", name, err)
	}
	return result, nil
}

// run runs the handler. A panic becomes an error whose text tells nothing.
func (s *Server) run(ctx context.Context, entry *toolEntry, arguments json.RawMessage) (result *mcp.CallToolResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.logger().ErrorContext(ctx, "a tool panicked", "tool", entry.tool.Name, "panic", v, "stack", string(debug.Stack()))
			result, err = nil, errors.New("the tool failed unexpectedly")
		}
	}()
	result, err = entry.handle(ctx, arguments)
	if err == nil && result == nil {
		err = errNoResult
	}
	return result, err
}

func (e *toolEntry) checkOutput(result *mcp.CallToolResult) error {
	if e.output == nil || result.IsError {
		return nil
	}
	if result.StructuredContent == nil {
		return errors.New("there is no structured content")
	}
	return e.output.Validate(result.StructuredContent)
}

// whatIsWrong says what is wrong with arguments, by their paths.
func whatIsWrong(err error) string {
	var invalid *schema.ValidationError
	if errors.As(err, &invalid) {
		return invalid.Describe("arguments")
	}
	return err.Error()
}
