package client

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// GetPrompt requests a prompt. arguments is a value that encodes to a JSON object of strings,
// such as a map[string]string, or nil for none; numbers and booleans are sent as strings, and
// null values are left out. The time-out is Timeouts.Read.
//
// An error that the server reports is a *jsonrpc.Error. If the connection is lost, GetPrompt
// reconnects and sends the request once more.
func (c *Client) GetPrompt(ctx context.Context, name string, arguments any, options ...CallOption) (*mcp.GetPromptResult, error) {
	params, err := promptParams(name, arguments)
	if err != nil {
		return nil, fmt.Errorf("prompts/get %s: %w", name, err)
	}
	result, err := get[mcp.GetPromptResult](ctx, c, outbound.Request{Method: mcp.MethodGetPrompt, Name: name, Params: params}, options)
	if err != nil {
		return nil, err
	}
	for _, message := range result.Messages {
		c.filterLinks([]mcp.Content{message.Content})
	}
	return result, nil
}

// promptParams encodes the params of prompts/get.
func promptParams(name string, arguments any) ([]byte, error) {
	params := jsonrpc.AppendString(append(make([]byte, 0, 128), `{"name":`...), name)
	if arguments == nil {
		return append(params, '}'), nil
	}
	raw, err := schema.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the arguments: %w", err)
	}
	if err := jsonrpc.Check(raw, jsonrpc.Limits{}); err != nil || raw[0] != '{' {
		return nil, fmt.Errorf("the arguments must encode to a JSON object, not %.20s", raw)
	}
	params = append(params, `,"arguments":{`...)
	first := true
	for key, value := range jsonrpc.All(raw) {
		if value[0] == 'n' {
			continue // null
		}
		if value[0] == '{' || value[0] == '[' {
			return nil, fmt.Errorf("the argument %q must be a string, a number or a boolean", key)
		}
		if !first {
			params = append(params, ',')
		}
		first = false
		params = append(jsonrpc.AppendString(params, key), ':')
		if value[0] == '"' {
			params = append(params, value...)
		} else {
			params = jsonrpc.AppendString(params, string(value))
		}
	}
	return append(params, `}}`...), nil
}
