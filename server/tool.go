package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// toolHandler is the handler of an untyped tool; see [Catalog.RegisterTool].
type toolHandler func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error)

// maxToolName is the limit that the protocol recommends (2026-07-28, server/tools, Tool Names).
const maxToolName = 128

// toolEntry is one registered tool. It is immutable except for warned.
type toolEntry struct {
	offer
	tool   mcp.Tool
	input  *schema.Schema
	output *schema.Schema // nil: structured content is not validated
	handle toolHandler    // validates the arguments
	// mirrored are the parameters that HTTP clients repeat in headers.
	mirrored  []schema.HeaderParam
	notSecret []string       // headers that NotSecret names
	forwarded bool           // another server defines the tool; see Forwarded
	budget    *schema.Budget // of the schemas of a forwarded tool
	changes   []string       // what was changed in the definition of a forwarded tool, for the log
	task      *TaskOptions   // nil: the tool does not run as a task
	parked    bool           // see Parked
	warned    sync.Once      // see logUnchecked
}

// addTool adds a tool with compiled schemas and options.
func (c *Catalog) addTool(e *toolEntry) error {
	e.name, e.logger = e.tool.Name, c.logger
	if e.task != nil {
		if err := e.task.check(); err != nil {
			return err
		}
		e.tool.Execution = &mcp.ToolExecution{TaskSupport: e.task.Support}
		if e.task.Support == mcp.TaskForbidden {
			e.task = nil
		}
	}
	if err := checkToolName(e.tool.Name); err != nil {
		return err
	}
	if !e.input.IsObject() {
		return errors.New(`the input schema must have "type": "object"`)
	}
	var err error
	if e.mirrored, err = e.headersOf(); err != nil {
		return err
	}
	if err := c.checkMeta(e.tool.Meta); err != nil {
		return err
	}
	if err := detach(&e.tool, &e.tool.Source); err != nil {
		return err
	}
	if err := register(c, &toolKind, e); err != nil {
		return err
	}
	if e.task != nil {
		c.runsTasks.Store(true)
	}
	return nil
}

func checkToolName(name string) error {
	if name == "" || len(name) > maxToolName {
		return fmt.Errorf("the name must have 1 to %d characters", maxToolName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
			return fmt.Errorf("the name must consist of letters, digits, _, - and ., not %q", c)
		}
	}
	return nil
}

// AddTool adds a typed tool. Its input schema is inferred from In, a struct or a map with string
// keys, unless tool has one. Package schema describes the tags that refine the schema. Arguments
// are validated before the handler runs; see [schema.Schema.Decode] for what is tolerated. If they
// are invalid, the client receives a tool error, which tells the model what to correct.
//
// The returned value becomes the result:
//
//   - a string becomes a text block;
//   - []mcp.Content and *mcp.CallToolResult are used unchanged;
//   - a struct, map, slice, array, number or boolean, or a pointer to one, becomes structured
//     content, and its JSON encoding becomes a text block for clients that do not support
//     structured content. Its schema is the tool's output schema, unless tool has one. A nil
//     pointer or map is a tool error. Clients of 2025-06-18 and 2025-11-25, where structured
//     content must be an object, receive other values and their schemas as {"result": …};
//   - any other value becomes its JSON encoding in a text block.
//
// A result that does not match the output schema is logged and becomes a tool error. For errors
// and panics of the handler, see the package documentation.
//
// AddTool panics if the name is in use or invalid, if In or Out has no schema, if tool has an
// output schema that no structured content of type Out fits, if a key in tool.Meta is invalid, or
// if a parameter requires [NotSecret]. A name has 1 to 128 letters, digits, underscores, hyphens and dots.
// [Catalog.RegisterTool] returns errors instead. Both copy tool and are safe while the server
// serves.
func AddTool[In, Out any](to Registrar, tool mcp.Tool, handler func(ctx context.Context, in In) (Out, error),
	options ...Option) {
	if err := addTool(to.catalog(), tool, handler, options); err != nil {
		panic(fmt.Sprintf("server: tool %q: %v", tool.Name, err))
	}
}

func addTool[In, Out any](c *Catalog, tool mcp.Tool, handler func(ctx context.Context, in In) (Out, error),
	options []Option) error {
	if handler == nil {
		return errNoHandler
	}
	var input *schema.Schema
	var err error
	if tool.InputSchema == nil {
		if input, err = schema.For[In](); err != nil {
			return fmt.Errorf("input: %w", err)
		}
		if err := checkIn[In](input); err != nil {
			return err
		}
		tool.InputSchema = input.JSON()
	} else if input, err = schema.Compile(tool.InputSchema); err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	encode, output, err := resultOf[Out](&tool)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	e := &toolEntry{
		tool:   tool,
		input:  input,
		output: output,
		handle: func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			var in In
			if err := input.Decode(arguments, &in); err != nil {
				return nil, invalidArguments(err)
			}
			out, err := handler(ctx, in)
			if err != nil {
				return nil, err
			}
			return encode(out)
		},
	}
	if err := apply(e, options); err != nil {
		return err
	}
	if e.forwarded {
		return errors.New("Forwarded must be an option of RegisterTool")
	}
	return c.addTool(e)
}

// RegisterTool adds a tool with raw JSON schemas and an untyped handler. A nil input schema accepts any object. It
// returns an error where [AddTool] panics, and if a schema is invalid unless the tool is [Forwarded]. A server that
// serves the tool logs the keywords of its schemas that it cannot check. RegisterTool copies tool. Safe while the
// server serves.
//
// The handler receives a JSON object that is valid for the input schema, and may keep it. Optional fields whose null
// the schema rejects have been removed, and strings that contain the JSON of an array or object have been replaced by
// it (see [schema.Schema.Unquote]). A nil result without an error is a tool error. For other errors and panics, see the
// package documentation.
func (c *Catalog) RegisterTool(
	tool mcp.Tool, handler func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error),
	options ...Option,
) error {
	e := &toolEntry{tool: tool}
	if err := c.registerTool(e, handler, options); err != nil {
		if e.forwarded {
			e.release()
		}
		return fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	for _, s := range c.servedBy() {
		e.logUnchecked(s.logger())
	}
	return nil
}

func (c *Catalog) registerTool(e *toolEntry, handler toolHandler, options []Option) error {
	if handler == nil {
		return errNoHandler
	}
	if err := apply(e, options); err != nil {
		return err
	}
	if err := c.compile(e); err != nil {
		return err
	}
	e.handle = func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		valid, unquoted, err := conform(e.input, arguments, e.forwarded)
		if err != nil {
			return nil, invalidArguments(err)
		}
		if e.forwarded { // the server of a forwarded tool decides what null means
			return handler(ctx, unquoted)
		}
		return handler(ctx, valid)
	}
	return c.addTool(e)
}

// compile compiles the schemas of a tool.
func (c *Catalog) compile(e *toolEntry) (err error) {
	if e.forwarded {
		return c.compileForwarded(e)
	}
	if e.tool.InputSchema == nil {
		e.tool.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`) // some models reject it without them
	}
	if e.input, err = schema.Compile(e.tool.InputSchema); err != nil {
		return fmt.Errorf("input schema: %w", err)
	}
	if e.tool.OutputSchema != nil {
		if e.output, err = schema.Compile(e.tool.OutputSchema); err != nil {
			return fmt.Errorf("output schema: %w", err)
		}
	}
	return nil
}

// logUnchecked logs, once, the keywords of the schemas that are ignored in validation, and changes of a definition.
func (e *toolEntry) logUnchecked(to *slog.Logger) {
	e.warned.Do(func() {
		for _, change := range e.changes {
			to.Warn(change, "tool", e.name)
		}
		for which, compiled := range map[string]*schema.Schema{"input": e.input, "output": e.output} {
			if compiled == nil {
				continue
			}
			for _, keyword := range compiled.Unchecked() {
				to.Warn("unsupported keyword in a tool's schema: it is not checked",
					"tool", e.name, "schema", which, "keyword", keyword.Pointer, "reason", keyword.Reason)
			}
		}
	})
}

// RemoveTool removes a tool and reports whether it existed. Calls in flight continue. Safe while
// the server serves.
func (c *Catalog) RemoveTool(name string) bool {
	return unregister(c, &toolKind, name)
}

// resultOf returns a function that encodes and validates results of type Out. It sets the
// output schema of tool.
func resultOf[Out any](tool *mcp.Tool) (encode func(Out) (*mcp.CallToolResult, error), output *schema.Schema,
	err error) {
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
	if output != nil && (!structured || output.IsObject() && !inferred.IsObject()) {
		return nil, nil, errUnstructured
	}
	if structured && output == nil {
		output, tool.OutputSchema = inferred, inferred.JSON()
	}
	return func(out Out) (*mcp.CallToolResult, error) {
		raw, err := schema.Marshal(out)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot encode the result: %w", err)
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
	errNoHandler    = errors.New("handler must not be nil")
	errNoResult     = errors.New("the tool returned no result")
	errUnstructured = errors.New("the handler of a tool with an output schema must return a struct or a map, " +
		"*mcp.CallToolResult, or a slice, a number or a boolean if the type of the schema is not object")
)

// isStructured reports whether values of t become structured content: JSON objects, arrays, numbers and booleans. It
// returns their schema.
func isStructured(t reflect.Type) (bool, *schema.Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Interface {
		return false, nil, nil
	}
	s, err := schema.ForType(t)
	if err != nil {
		return false, nil, err
	}
	kind, _ := jsonrpc.Get(s.JSON(), "type")
	switch jsonrpc.Unquote(kind) {
	case "object", "array", "number", "integer", "boolean":
		return true, s, nil
	}
	return false, s, nil // such as a time.Time, which is a struct, and a JSON string
}

// textResult returns a result with one text, in one allocation.
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
