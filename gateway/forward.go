package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// forward returns a handler that calls a tool of a server.
func (g *Gateway) forward(serverName, tool string) server.ToolHandler {
	return func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		result, err := g.host.CallTool(ctx, serverName, tool, arguments, g.callOptions(ctx)...)
		if err != nil {
			return nil, toolError(ctx, serverName, err)
		}
		strip(&result.ResultBase)
		return result, nil
	}
}

// callOptions returns the options of a forwarded request: the time-out, and a function
// that forwards progress to the client if the client wants it.
func (g *Gateway) callOptions(ctx context.Context) []client.CallOption {
	options := []client.CallOption{client.WithTimeout(g.timeout())}
	if c := rpc.From(ctx); c != nil && !c.ProgressToken.IsZero() {
		options = append(options, client.WithProgress(func(done, total float64, message string) {
			// Progress that cannot be sent does not affect the call.
			_ = server.Progress(ctx, done, total, message)
		}))
	}
	return options
}

// toolError returns the error for the caller of a tool. An error about the arguments is
// returned unchanged. Other errors get the name of the server, which the caller may not
// know.
func toolError(ctx context.Context, serverName string, err error) error {
	var reported *jsonrpc.Error
	var down *host.DownError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &down):
		return err
	case !errors.As(err, &reported):
		return fmt.Errorf("server %q: %w", serverName, err)
	case reported.Code == jsonrpc.CodeInvalidParams:
		return reported
	}
	// Do not wrap the error: the client would receive its code as an error of the gateway.
	return fmt.Errorf("server %q returned an error: %v", serverName, reported)
}

// strip removes from a result what belongs to the connection between the gateway and
// the server.
func strip(result *mcp.ResultBase) {
	result.ResultType = ""
	result.Meta = forwardable(result.Meta)
}

// forwardable returns the entries of a server's _meta that the gateway may send to its
// clients: valid keys that are not reserved by the protocol.
func forwardable(meta mcp.Meta) mcp.Meta {
	kept := maps.Clone(meta)
	maps.DeleteFunc(kept, func(key string, value json.RawMessage) bool { return mcp.CheckMeta(key, value) != nil })
	if len(kept) == 0 {
		return nil
	}
	return kept
}

func (g *Gateway) timeout() time.Duration {
	if g.Timeout != 0 {
		return g.Timeout
	}
	return defaultTimeout
}
