package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// forwardTool adds a tool of another server, as [Catalog.RegisterTool] does, but does not reject
// its schemas. Clients receive a schema that cannot be compiled unchanged; the server logs a
// warning and does not validate with it. The type of the input schema becomes "object", as the
// protocol requires, and an output schema that is not a JSON object is left out. The other server
// decides about null for an argument that the schema does not require. Link.Server.Within sets the budget
// for the memory of the schemas. Safe while the server serves.
func (c *Catalog) forwardTool(
	logger *slog.Logger, tool mcp.Tool, handler link.ToolHandler, options ...Option,
) error {
	if handler == nil {
		return fmt.Errorf("tool %q: %w", tool.Name, errNoHandler)
	}
	logger = logger.With("tool", tool.Name)
	if object := withObjectType(tool.InputSchema); string(object) != string(tool.InputSchema) {
		if tool.InputSchema != nil {
			logger.Warn("changed the type of a tool's input schema to object")
		}
		tool.InputSchema = object
	}
	if tool.OutputSchema != nil && !isObject(tool.OutputSchema) {
		logger.Warn("left out the output schema of a tool, because it is not a JSON object")
		tool.OutputSchema = nil
	}
	e := &toolEntry{tool: tool, handle: handler, forwarded: true}
	given := new(toolEntry)
	if err := apply(given, options); err != nil {
		return fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	e.budget = cmp.Or(given.budget, &c.budget)
	var err error
	if e.input, err = e.budget.Compile(tool.InputSchema); err != nil {
		logger.Warn("the arguments of a tool are not validated", "error", err)
		if e.input, err = schema.Compile(anyObject); err != nil {
			return fmt.Errorf("tool %q: input schema: %w", tool.Name, err)
		}
	}
	if tool.OutputSchema != nil {
		if e.output, err = e.budget.Compile(tool.OutputSchema); err != nil {
			logger.Warn("the results of a tool are not validated", "error", err)
			e.output = nil
		}
	}
	if err := c.addUntyped(e, options); err != nil {
		e.release()
		return err
	}
	e.logUnchecked(logger)
	return nil
}

// release gives back the memory of the schemas of a forwarded tool that was removed.
func (e *toolEntry) release() {
	if e.budget != nil {
		e.budget.Release(e.input)
		e.budget.Release(e.output)
	}
}

// forwarded returns the result of a forwarded call. It decodes the Source if the result needs
// another form in revision r, or when middleware looks at it.
func (s *Server) forwarded(r mcp.Revision, f *rpc.Forwarding) (any, error) {
	if revision.Downgrade(r, f.Result) != f.Result {
		return decodeForwarded(f.Result)
	}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return f.Append(dst, r, s.core.engine.Identity) },
		Result: func() any {
			decoded, _ := decodeForwarded(f.Result) // it is an object with a list of blocks
			return decoded
		},
		Fresh: true,
	}, nil
}

// decodeForwarded returns a result with the fields that its Source has.
func decodeForwarded(result *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	decoded := new(mcp.CallToolResult)
	var source json.RawMessage = revision.AppendForwarded(nil, mcp.V20251125, result, nil, nil)
	source, _, err := contain.Decode(source, decoded) // the client has checked the texts only
	decoded.Source = source
	return decoded, err
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// withObjectType returns a schema with the type "object".
func withObjectType(raw json.RawMessage) json.RawMessage {
	if !isObject(raw) {
		return anyObject
	}
	kind, ok := jsonrpc.Get(raw, "type")
	if ok && jsonrpc.Unquote(kind) == "object" {
		return raw
	}
	out := []byte(`{"type":"object"`)
	for name, value := range jsonrpc.All(raw) {
		if name != "type" {
			out = append(append(jsonrpc.AppendString(append(out, ','), name), ':'), value...)
		}
	}
	return append(out, '}')
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// headersOf returns the parameters that clients mirror in headers. The program vouches for its
// own tools only: parameters of a forwarded tool may be secret, and are ignored if they are
// invalid, as clients then reject the tool.
func (e *toolEntry) headersOf() ([]schema.HeaderParam, error) {
	mirrored, err := schema.Headers(e.tool.InputSchema)
	switch {
	case e.forwarded && err != nil:
		return nil, nil
	case e.forwarded:
		return mirrored, nil
	case err != nil:
		return nil, fmt.Errorf("input %w", err)
	}
	return mirrored, checkMirrored(mirrored, e.notSecret)
}
