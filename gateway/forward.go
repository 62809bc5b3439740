package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// toolHandler is the handler of a tool; see server.Catalog.RegisterTool.
type toolHandler = func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error)

// forward returns a handler that calls a tool of a server.
func (g *Gateway) forward(serverName, tool string) toolHandler {
	return func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		options := callOptions(ctx, g.options().tool)
		var isTask *atomic.Bool // nil unless the call can become a task
		if server.CanDetach(ctx) {
			// If the call cannot become a task, it waits for the task of the server.
			isTask = new(atomic.Bool)
			options = append(slices.Clip(options), client.WithTask(func() {
				isTask.Store(server.Detach(ctx) == nil)
			}))
		}
		result, err := g.host.Client(serverName).CallTool(g.withCaller(ctx), tool, arguments, options...)
		switch {
		case err != nil && isTask != nil && isTask.Load():
			return nil, g.protocolError(ctx, serverName, err) // the task fails, like the task of the server
		case err != nil:
			return nil, g.toolError(ctx, serverName, err)
		}
		if result.Content != nil || result.Source == nil { // otherwise, the Source is forwarded
			g.routes.Load().rewrite(serverName, result.Content...)
		}
		result.Meta = rewriteUI(result.Meta, func(uri string) string { return g.routes.Load().uri(serverName, uri) })
		return result, nil
	}
}

// requestOptions contains the options of all forwarded requests, by kind: calls of tools, reads of resources and
// prompts, and requests of extensions.
type requestOptions struct{ tool, content, extension []client.CallOption }

// callOptions returns the options of a forwarded request: the options for all requests, the entries of _meta that
// the client has set for the server, the log level of the client, and a function that forwards progress to the
// client if the client wants it.
func callOptions(ctx context.Context, options []client.CallOption) []client.CallOption {
	options = extensionOptions(ctx, options)
	if level := server.LogLevel(ctx); level != "" {
		options = append(options, client.WithLogLevel(level))
	}
	return options
}

// extensionOptions returns the same options as callOptions, but without the log level, which a request of an
// extension cannot have.
func extensionOptions(ctx context.Context, options []client.CallOption) []client.CallOption {
	c := call.From(ctx)
	if meta := requestMeta(c); meta != nil {
		options = append(options, client.WithMeta(meta))
	}
	if c.Meta(mcp.MetaProgressToken) != nil || server.CanDetach(ctx) { // the status of a task shows the progress, too
		options = append(options, client.WithProgress(func(done, total float64, message string) {
			// Progress that cannot be sent does not affect the call.
			_ = server.Progress(ctx, done, total, message)
		}))
	}
	return options
}

// requestMeta returns the entries of a request's _meta that the gateway forwards.
func requestMeta(c *call.Call) mcp.Meta {
	raw, _ := c.Params().Get("_meta")
	var meta mcp.Meta
	for key, value := range jsonrpc.All(raw) {
		if !mcp.IsForwardable(key, value) {
			continue
		}
		if meta == nil {
			meta = make(mcp.Meta)
		}
		meta[key] = value
	}
	return meta
}

func (g *Gateway) timeout() time.Duration {
	if g.Timeout != 0 {
		return g.Timeout
	}
	return defaultTimeout
}

// registerResults registers the template of large results when a server has a limit; see
// host.ServerConfig.MaxResult.
func (g *Gateway) registerResults(status host.ServerStatus) {
	if status.Config.MaxResult <= 0 || g.results {
		return
	}
	err := g.server.RegisterTemplate(mcp.ResourceTemplate{
		URITemplate: host.ResultURI + "{server}/{id}",
		Name:        "large-results",
		Title:       "Large results of tools",
		Description: "The whole result of a tool, for one hour. A call with a large result returns a link to it.",
	}, g.readResult)
	if err != nil {
		g.logger().Warn("cannot add the resource template for large results", "error", err)
		return
	}
	g.results = true
}

// readResult reads a large result.
func (g *Gateway) readResult(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	serverName, _, _ := strings.Cut(strings.TrimPrefix(uri, host.ResultURI), "/")
	if !slices.ContainsFunc(g.host.Status(), func(s host.ServerStatus) bool {
		return s.Name == serverName && s.Config.MaxResult > 0
	}) {
		return nil, call.ErrResourceNotFound
	}
	result, err := g.host.Client(serverName).ReadResource(g.withCaller(ctx), uri)
	if err != nil {
		return nil, g.protocolError(ctx, serverName, err)
	}
	return result, nil
}

// asTask contains the options of tools that a server may run as tasks. These tools are also registered with
// server.Parked. A client of 2025-11-25 decides whether its call is a task. In 2026-07-28, the call becomes a task when
// the server has created a task, if the client supports tasks. Other clients wait for the result, even of a tool that
// must run as a task. Clients see only the tasks of the gateway.
var asTask = server.TaskOptions{Support: mcp.TaskOptional, TTL: taskTTL, Timeout: taskTTL}

// taskTTL is the life of a task and its result.
const taskTTL = 24 * time.Hour

// runsTasks reports whether a server may run a tool as a task: in 2025-11-25 the tool says so, and in
// 2026-07-28 the server.
func (v *view) runsTasks(serverName string, tool *mcp.Tool) bool {
	if e := tool.Execution; e != nil && (e.TaskSupport == mcp.TaskOptional || e.TaskSupport == mcp.TaskRequired) {
		return true
	}
	_, declared := v.capabilities[serverName].Extensions[mcp.ExtensionTasks]
	return declared
}
