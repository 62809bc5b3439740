package server

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Forwarded marks a tool of [Catalog.RegisterTool] that another server defines, as in a gateway. RegisterTool is then
// less strict:
//
//   - A schema that cannot be compiled is not an error. Clients receive it unchanged, and the server logs a warning and
//     does not validate with it.
//   - The type of the input schema becomes "object", as the protocol requires. An output schema that is not a JSON
//     object is left out, and so are Execution and the entries of Meta that are not forwardable.
//   - The handler receives null for an argument that the schema does not require, because the other server decides
//     about it.
//   - Headers that mirror parameters need no [NotSecret].
//
// Compiled schemas can need much memory, even small ones. Their memory counts towards the budget until the tool is
// removed, and a schema that exceeds the budget is not used for validation. Nil means one budget for all forwarded
// tools of the catalog.
func Forwarded(schemas *schema.Budget) Option {
	return ofTool("Forwarded", func(e *toolEntry) { e.forwarded, e.budget = true, schemas })
}

// compileForwarded prepares the definition of a forwarded tool, and compiles its schemas as far as possible.
func (c *Catalog) compileForwarded(e *toolEntry) error {
	e.tool.Meta, e.tool.Execution = e.tool.Meta.Forwardable(), nil // AsTask sets Execution
	if object := withObjectType(e.tool.InputSchema); string(object) != string(e.tool.InputSchema) {
		if e.tool.InputSchema != nil {
			e.changes = append(e.changes, "changed the type of a tool's input schema to object")
		}
		e.tool.InputSchema = object
	}
	if e.tool.OutputSchema != nil && !isObject(e.tool.OutputSchema) {
		e.changes = append(e.changes, "left out the output schema of a tool, because it is not a JSON object")
		e.tool.OutputSchema = nil
	}
	e.budget = cmp.Or(e.budget, &c.budget)
	var err error
	if e.input, err = e.budget.Compile(e.tool.InputSchema); err != nil {
		e.changes = append(e.changes, "the arguments of a tool are not validated: "+err.Error())
		if e.input, err = schema.Compile(anyObject); err != nil {
			return fmt.Errorf("input schema: %w", err)
		}
	}
	if e.tool.OutputSchema != nil {
		if e.output, err = e.budget.Compile(e.tool.OutputSchema); err != nil {
			e.changes = append(e.changes, "the results of a tool are not validated: "+err.Error())
			e.output = nil
		}
	}
	return nil
}

// release gives back the memory of the schemas of a forwarded tool that was removed.
func (e *toolEntry) release() {
	if e.budget != nil {
		e.budget.Release(e.input)
		e.budget.Release(e.output)
	}
}

// isUndecoded reports whether a result has only its Source; see client.WithUndecodedText.
func isUndecoded(result *mcp.CallToolResult) bool {
	return result.Content == nil && result.Source != nil
}

// forwarded returns the outcome of a call with an undecoded result. It decodes the Source if the result needs another
// form in the revision of the call, or when middleware looks at it.
func (s *Server) forwarded(c *rpc.Call, result *mcp.CallToolResult) (any, error) {
	if revision.Downgrade(c.Revision(), result) != result {
		return decodeForwarded(result)
	}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return c.AppendForwarded(dst, result, s.core.engine.Identity) },
		Result: func() any {
			decoded, _ := decodeForwarded(result) // it is an object with a list of blocks
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
