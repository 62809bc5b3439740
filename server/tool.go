package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// ToolHandler is a tool in the raw: arguments come as the JSON object that has
// passed the tool's input schema, and stays the handler's. An error that it
// returns becomes a tool error, which the model reads; a *jsonrpc.Error becomes a
// protocol error, which it does not.
type ToolHandler func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error)

// AddTool offers a typed tool. Its input schema is inferred from In, a struct or a
// map with string keys, unless tool has one (see package schema for the tags that
// shape it); arguments are validated before the handler sees them.
//
// What the handler returns becomes the result:
//
//   - a string is a text;
//   - []mcp.Content and *mcp.CallToolResult are as they stand;
//   - a struct or map is structured content, and its JSON as text for clients that
//     know nothing of that. Its schema is the tool's output schema, unless tool has one;
//   - anything else is its JSON as text.
//
// A returned error is a tool error, which the model reads, unless it is or wraps a
// *jsonrpc.Error. A panic is a tool error too, and a line in the log.
//
// AddTool panics if the tool cannot be offered: if In or Out has no schema, if tool
// has an output schema though Out is no structured content, if the name is taken or
// not one. [Server.RegisterTool] returns errors instead. Both are safe while the
// server serves, and keep nothing of tool that the caller could change.
func AddTool[In, Out any](s *Server, tool mcp.Tool, handler func(ctx context.Context, in In) (Out, error), options ...ToolOption) {
	if err := addTool(s, tool, handler, options); err != nil {
		panic(fmt.Sprintf("server: tool %q: %v", tool.Name, err))
	}
}

func addTool[In, Out any](s *Server, tool mcp.Tool, handler func(ctx context.Context, in In) (Out, error), options []ToolOption) error {
	if handler == nil {
		return errNoHandler
	}
	var input *schema.Schema
	var err error
	if tool.InputSchema == nil {
		if input, err = schema.For[In](); err != nil {
			return fmt.Errorf("input: %w", err)
		}
		tool.InputSchema = input.JSON()
	} else if input, err = schema.Compile(tool.InputSchema); err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	encode, output, err := resultOf[Out](&tool)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return s.addTool(&toolEntry{
		tool:   tool,
		input:  input,
		output: output,
		handle: func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			var in In
			if err := schema.Decode(arguments, &in); err != nil {
				return nil, fmt.Errorf("invalid arguments: %w", err)
			}
			out, err := handler(ctx, in)
			if err != nil {
				return nil, err
			}
			return encode(out)
		},
	}, options)
}

// RegisterTool offers a tool whose schema is raw JSON and whose handler takes raw
// JSON: for tools that are not known when the program is written. The error says
// why the tool cannot be offered. Safe while the server serves.
func (s *Server) RegisterTool(tool mcp.Tool, handler ToolHandler, options ...ToolOption) error {
	if tool.InputSchema == nil {
		tool.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	input, err := schema.Compile(tool.InputSchema)
	if err != nil {
		return fmt.Errorf("tool %q: input schema: %w", tool.Name, err)
	}
	var output *schema.Schema
	if tool.OutputSchema != nil {
		if output, err = schema.Compile(tool.OutputSchema); err != nil {
			return fmt.Errorf("tool %q: output schema: %w", tool.Name, err)
		}
	}
	if err := s.addTool(&toolEntry{tool: tool, input: input, output: output, handle: handler}, options); err != nil {
		return fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	return nil
}

// RemoveTool withdraws a tool and reports whether there was one. Calls in flight
// finish. Safe while the server serves.
func (s *Server) RemoveTool(name string) bool {
	return removed(s, rpc.ToolsChanged, &s.tools, name)
}

// DeclareTools declares that the server has tools even while it has none, for one
// whose tools come and go.
func (s *Server) DeclareTools() { s.tools.offer() }

// resultOf returns how results of type Out are encoded and validated, and notes
// the output schema in tool.
func resultOf[Out any](tool *mcp.Tool) (encode func(Out) (*mcp.CallToolResult, error), output *schema.Schema, err error) {
	if tool.OutputSchema != nil {
		if output, err = schema.Compile(tool.OutputSchema); err != nil {
			return nil, nil, err
		}
	}
	var zero Out
	switch any(zero).(type) {
	case *mcp.CallToolResult:
		return func(out Out) (*mcp.CallToolResult, error) { return any(out).(*mcp.CallToolResult), nil }, output, nil
	case string:
		encode = func(out Out) (*mcp.CallToolResult, error) { return textResult(any(out).(string)), nil }
	case []mcp.Content:
		encode = func(out Out) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: any(out).([]mcp.Content)}, nil
		}
	}
	if encode != nil {
		if output != nil {
			return nil, nil, errUnstructured
		}
		return encode, nil, nil
	}
	structured, inferred, err := isStructured(reflect.TypeFor[Out]())
	if err != nil {
		return nil, nil, err
	}
	if structured && output == nil {
		output, tool.OutputSchema = inferred, inferred.JSON()
	}
	if output != nil && !structured {
		return nil, nil, errUnstructured
	}
	return func(out Out) (*mcp.CallToolResult, error) {
		raw, err := schema.Marshal(out)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the result cannot be encoded: %w", err)
		case structured && string(raw) == "null":
			return nil, errNoResult
		}
		result := textResult(string(raw))
		if structured {
			result.StructuredContent = raw
		}
		return result, nil
	}, output, nil
}

var (
	errNoHandler    = errors.New("the handler is nil")
	errNoResult     = errors.New("the tool returned no result")
	errUnstructured = errors.New("a tool with an output schema returns a struct, a map or *mcp.CallToolResult: other results are not structured")
)

// isStructured reports whether values of t are JSON objects, which is what
// structured content has to be for most revisions, and returns their schema if so.
func isStructured(t reflect.Type) (bool, *schema.Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return false, nil, nil
	}
	s, err := schema.ForType(t)
	if err != nil {
		return false, nil, err
	}
	return s.IsObject(), s, nil // a time.Time is a struct, and a JSON string
}

// textResult makes the most common result, in one allocation.
func textResult(text string) *mcp.CallToolResult {
	r := &struct {
		result  mcp.CallToolResult
		content [1]mcp.Content
		text    mcp.TextContent
	}{}
	r.text.Text = text
	r.content[0] = &r.text
	r.result.Content = r.content[:]
	return &r.result
}

func errorResult(text string) *mcp.CallToolResult {
	result := textResult(text)
	result.IsError = true
	return result
}
