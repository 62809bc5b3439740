package rpc

import (
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// newResult returns a new result of a request that a client sends, or nil if the protocol does
// not define the method.
func newResult(method string) any {
	switch method {
	case mcp.MethodInitialize:
		return new(mcp.InitializeResult)
	case mcp.MethodDiscover:
		return new(mcp.DiscoverResult)
	case mcp.MethodListTools:
		return new(mcp.ListToolsResult)
	case mcp.MethodCallTool:
		return new(mcp.CallToolResult)
	case mcp.MethodListResources:
		return new(mcp.ListResourcesResult)
	case mcp.MethodListResourceTemplates:
		return new(mcp.ListResourceTemplatesResult)
	case mcp.MethodReadResource:
		return new(mcp.ReadResourceResult)
	case mcp.MethodListPrompts:
		return new(mcp.ListPromptsResult)
	case mcp.MethodGetPrompt:
		return new(mcp.GetPromptResult)
	case mcp.MethodComplete:
		return new(mcp.CompleteResult)
	case mcp.MethodListen:
		return new(mcp.ListenResult)
	case mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return new(mcp.EmptyResult)
	}
	return nil
}

// decodeResult decodes the result of a request that a client has sent. It returns nil for the
// results of extensions, except for that of a tool call that has become a task.
func decodeResult(req *Request, raw json.RawMessage) (any, error) {
	result := newResult(req.Method)
	if req.AnyResultType || result == nil {
		return nil, nil
	}
	if kind, ok := jsonrpc.Get(raw, "resultType"); ok {
		switch jsonrpc.Unquote(kind) {
		case mcp.ResultTypeComplete:
		case mcp.ResultTypeTask:
			result = new(mcp.CreateTaskResult)
		default:
			return nil, nil
		}
	}
	if err := schema.Decode(raw, result); err != nil {
		return nil, fmt.Errorf("%w: %s: cannot decode the result: %w", call.ErrInvalidResponse, req.Method, err)
	}
	return result, nil
}
