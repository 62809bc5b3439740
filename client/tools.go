package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// CallTool calls a tool. Arguments are anything that encodes to a JSON object, or
// nil for none; a json.RawMessage is sent as it is.
//
// A tool that failed is a result with IsError, not an error. An error is a
// *jsonrpc.Error if the server reports it (an unknown tool, say); a
// *call.TimeoutError or the context's, after which the server has been told to
// stop; or ErrConnectionLost, after which nobody knows whether the tool has run.
// CallTool never calls a tool a second time, unless the server has refused the
// first call: because of its headers, and the tool has changed since it was listed, or
// because the user has to visit a URL first, and Dialer.ElicitURL says that they have
// agreed to.
//
// The structured content of a tool that was listed before has to fit the tool's output
// schema, or the error is an *[OutputError], which has the result. A tool that was not is
// not listed for that: to have results validated, go through [Client.Tools] first. A
// schema that cannot be used, or not in bounded time, is logged and the result is taken
// as it is; Dialer.SkipOutputValidation takes all as they are. If the tools were listed more
// than a minute ago, they are listed once more before a result is refused.
func (c *Client) CallTool(ctx context.Context, name string, arguments any, options ...CallOption) (*mcp.CallToolResult, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Tool)
	if err != nil {
		return nil, fmt.Errorf("tools/call %s: %w", name, err)
	}
	params, err := callParams(name, arguments)
	if err != nil {
		return nil, err
	}
	mirror, err := c.mirror(name, params)
	if err != nil {
		return nil, fmt.Errorf("tools/call %s: %w", name, err)
	}
	send := func() (json.RawMessage, error) {
		return c.request(ctx, func(*link) *rpc.Request {
			return &rpc.Request{
				Method: mcp.MethodCallTool, Params: params, Name: name, Mirror: mirror, Meta: o.meta,
				Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max, OnProgress: c.dialer.progressContained(o.onProgress),
			}
		}, false)
	}
	raw, err := send()
	if isHeaderMismatch(err) { // and nothing has been done
		var changed bool
		if mirror, changed = c.mirrorAnew(ctx, name, params, mirror); changed {
			raw, err = send()
		}
	}
	if err != nil {
		return nil, err
	}
	result, err := decodeToolResult(raw)
	if err != nil {
		return nil, err
	}
	if err := c.checkOutput(ctx, name, result); err != nil {
		return nil, err
	}
	return result, nil
}

// callParams encodes the params of tools/call.
func callParams(name string, arguments any) ([]byte, error) {
	params := jsonrpc.AppendString(append(make([]byte, 0, 128), `{"name":`...), name)
	if arguments != nil {
		raw, err := schema.Marshal(arguments)
		if err != nil {
			return nil, fmt.Errorf("tools/call %s: the arguments cannot be encoded: %w", name, err)
		}
		if len(raw) == 0 || raw[0] != '{' {
			return nil, fmt.Errorf("tools/call %s: the arguments must encode to a JSON object, not %.20s", name, raw)
		}
		params = append(append(params, `,"arguments":`...), raw...)
	}
	return append(params, '}'), nil
}

func decodeToolResult(raw []byte) (*mcp.CallToolResult, error) {
	result := new(mcp.CallToolResult)
	if err := result.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("%w: tools/call: %w", ErrInvalidResponse, err)
	}
	return result, nil
}

// ToolError is what [CallTool] returns for a tool that failed.
type ToolError struct {
	Tool   string
	Result *mcp.CallToolResult // what the tool has to say about it
}

// Error returns the text that the tool gave.
func (e *ToolError) Error() string {
	return fmt.Sprintf("tool %s failed: %s", e.Tool, textOf(e.Result))
}

// CallTool calls a tool and decodes its structured content into Out; without any, its
// text if Out is string, and otherwise its text as JSON. A tool that failed is a
// *ToolError.
func CallTool[Out any](ctx context.Context, c *Client, name string, arguments any, options ...CallOption) (Out, error) {
	var out Out
	result, err := c.CallTool(ctx, name, arguments, options...)
	if err != nil {
		return out, err
	}
	if result.IsError {
		return out, &ToolError{Tool: name, Result: result}
	}
	if text, ok := any(&out).(*string); ok && result.StructuredContent == nil {
		*text = textOf(result)
		return out, nil
	}
	raw := []byte(result.StructuredContent)
	if raw == nil {
		raw = []byte(textOf(result))
	}
	if err := schema.Decode(raw, &out); err != nil {
		return out, fmt.Errorf("%w: tools/call %s: the result does not fit %T: %w", ErrInvalidResponse, name, out, err)
	}
	return out, nil
}

// textOf joins the texts of a result.
func textOf(result *mcp.CallToolResult) string {
	var texts []string
	for _, content := range result.Content {
		if t, ok := content.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}
