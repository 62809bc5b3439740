package gateway

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// forward returns a handler that calls a tool of a server.
func (g *Gateway) forward(serverName, tool string) server.ToolHandler {
	return func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		sending := ctx
		var isTask *atomic.Bool // nil unless the call can become a task
		if rpc.From(ctx).AsTask().Detach != nil {
			// If the call cannot become a task, it waits for the task of the server.
			isTask = new(atomic.Bool)
			sending = rpc.WithCreatedTask(ctx, func() {
				_, err := server.Detach(ctx)
				isTask.Store(err == nil)
			})
		}
		forwarding := &rpc.Forwarding{Context: sending}
		result, err := g.host.CallTool(forwarding, serverName, tool, arguments, g.callOptions(ctx)...)
		switch {
		case err != nil && isTask != nil && isTask.Load():
			return nil, g.protocolError(ctx, serverName, err) // the task fails, as that of the server
		case err != nil:
			return nil, g.toolError(ctx, serverName, err)
		}
		toGateway := func(uri string) string { return g.currentRoutes().uri(serverName, uri) }
		if result.Source == nil || hasURIs(result.Content) { // the host has no Source for a result that it has cut
			strip(&result.ResultBase)
			g.currentRoutes().rewrite(serverName, result.Content...)
			result.Meta = rewriteUI(result.Meta, toGateway)
			return result, nil
		}
		meta, _ := jsonrpc.Get(result.Source, "_meta")
		result.Meta, result.ResultType = rewriteUI(forwardableMembers(meta), toGateway), ""
		forwarding.Result = result
		rpc.From(ctx).Forwarded = forwarding
		return result, nil
	}
}

// callOptions returns the options of a forwarded request: those of all requests, the
// members of _meta that the client has set for the server, the log level of the client, and a
// function that forwards progress to the client if the client wants it.
func (g *Gateway) callOptions(ctx context.Context) []client.CallOption {
	c, options := rpc.From(ctx), g.options()
	if meta := requestMeta(c); meta != nil {
		options = append(options, client.WithMeta(meta))
	}
	if c.LogLevel != "" {
		//lint:ignore SA1019 logging is deprecated, but still supported
		options = append(options, client.WithLogLevel(c.LogLevel))
	}
	if !c.ProgressToken.IsZero() || c.AsTask().Detach != nil { // the status of a task has the progress, too
		options = append(options, client.WithProgress(func(done, total float64, message string) {
			// Progress that cannot be sent does not affect the call.
			_ = server.Progress(ctx, done, total, message)
		}))
	}
	return options
}

// requestMeta returns the entries of a request's _meta that the gateway forwards.
func requestMeta(c *rpc.Call) mcp.Meta {
	raw, _ := c.Params().Get("_meta")
	return forwardableMembers(raw)
}

// forwardableMembers returns the entries of _meta, a JSON object, that the gateway forwards.
func forwardableMembers(raw []byte) mcp.Meta {
	var meta mcp.Meta
	for key, value := range jsonrpc.All(raw) {
		if !revision.IsForwardable(key, value) {
			continue
		}
		if meta == nil {
			meta = make(mcp.Meta)
		}
		meta[key] = value
	}
	return meta
}

// strip removes from a result what belongs to the connection between the gateway and
// the server.
func strip(result *mcp.ResultBase) {
	result.ResultType = ""
	removed := []string{"resultType"}
	if result.Meta = revision.ForwardableMeta(result.Meta); result.Meta == nil {
		removed = append(removed, "_meta")
	}
	result.Source = revision.WithoutMembers(result.Source, removed...)
}

func (g *Gateway) timeout() time.Duration {
	if g.Timeout != 0 {
		return g.Timeout
	}
	return defaultTimeout
}
