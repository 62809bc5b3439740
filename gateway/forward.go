package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
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

// toolError returns the error for the caller of a tool. Errors that are meant for the
// caller are returned unchanged. Other errors get the name of the server, which the
// caller may not know.
func (g *Gateway) toolError(ctx context.Context, serverName string, err error) error {
	var reported *jsonrpc.Error
	var down *host.DownError
	var denied *host.DeniedError
	var required *call.URLRequiredError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &down), errors.As(err, &denied):
		return err
	case errors.As(err, &required) && !canOpenURLs(ctx):
		return fmt.Errorf("server %q: %s", serverName, required)
	case !errors.As(err, &reported):
		return fmt.Errorf("server %q: %w", serverName, err)
	case reported.Code == mcp.CodeURLElicitationRequired:
		return g.urlRequired(ctx, serverName, reported)
	case reported.Code == mcp.CodeMissingCapability:
		// The gateway declares what its client declares, so the client must declare the missing capability.
		var missing mcp.MissingCapabilityData
		if schema.Decode(reported.Data, &missing) == nil {
			return &call.CapabilityError{Required: missing.RequiredCapabilities}
		}
	case isForCaller(reported.Code):
		return reported
	}
	// Do not wrap the error: the client would receive its code as an error of the gateway.
	return fmt.Errorf("server %q returned an error: %v", serverName, reported)
}

// canOpenURLs reports whether the client of the call can ask its user to open the URL of an error. Other clients
// receive the URL as text. An error needs no event stream, so this does not depend on server.InputCapabilities, which
// is about questions.
func canOpenURLs(ctx context.Context) bool {
	c := call.From(ctx)
	return c != nil && c.Revision() >= mcp.V20251125 && c.Peer().Capabilities.Elicitation.SupportsURL()
}

// isForCaller reports whether an error is about the arguments, or has a code that the
// server has defined itself. Other codes concern the connection between the gateway and
// the server.
func isForCaller(code int64) bool {
	return code == jsonrpc.CodeInvalidParams || code < firstReservedCode || code > lastReservedCode
}

// The codes that JSON-RPC reserves (JSON-RPC 2.0, section 5.1).
const (
	firstReservedCode = -32768
	lastReservedCode  = -32000
)

// protocolError returns the error for a request for a resource, a prompt or a
// completion. It converts the result of toolError to a *jsonrpc.Error, because the
// client does not receive the text of other errors.
func (g *Gateway) protocolError(ctx context.Context, serverName string, err error) error {
	if errors.Is(err, call.ErrResourceNotFound) {
		return call.ErrResourceNotFound
	}
	var data json.RawMessage
	if reported := new(jsonrpc.Error); errors.As(err, &reported) {
		data = reported.Data
	}
	err = g.toolError(ctx, serverName, err)
	var reported *jsonrpc.Error
	var required *call.URLRequiredError
	if errors.As(err, &reported) || errors.As(err, &required) || errors.As(err, new(*call.CapabilityError)) {
		return err
	}
	code := jsonrpc.CodeInternalError
	if errors.As(err, new(*host.DeniedError)) {
		code = jsonrpc.CodeInvalidRequest
	}
	failed := jsonrpc.Errorf(code, "%s", err)
	failed.Data = data
	return failed
}

// urlRequired returns the error that asks the client to let its user open URLs. Clients of 2025-11-25 receive
// the server's error with only the messages for the user changed.
func (g *Gateway) urlRequired(ctx context.Context, serverName string, reported *jsonrpc.Error) error {
	var required mcp.URLElicitationRequiredData
	if err := schema.Decode(reported.Data, &required); err != nil {
		return fmt.Errorf("server %q requires URLs, but its error is invalid: %v", serverName, err)
	}
	c := call.From(ctx)
	if c == nil || c.Revision() == mcp.V20251125 {
		attributed := *reported
		attributed.Data = g.attributeURLs(serverName, reported.Data)
		return &attributed
	}
	e := &call.URLRequiredError{}
	for _, one := range required.Elicitations {
		e.URLs = append(e.URLs, call.RequiredURL{URL: one.URL,
			Message: g.host.Attribute(serverName, one.Message), ID: one.ElicitationID})
	}
	return e
}

// attributeURLs attributes the messages in the data of an error that requires URLs. Other fields do not change.
func (g *Gateway) attributeURLs(serverName string, data json.RawMessage) json.RawMessage {
	return mapMember(data, "elicitations", func(list json.RawMessage) json.RawMessage {
		var elicitations []json.RawMessage
		_ = schema.Decode(list, &elicitations) // it has been decoded before
		mapped := []byte{'['}
		for i, one := range elicitations {
			if i > 0 {
				mapped = append(mapped, ',')
			}
			mapped = append(mapped, mapMember(one, "message", func(message json.RawMessage) json.RawMessage {
				return jsonrpc.AppendString(nil, g.host.Attribute(serverName, jsonrpc.Unquote(message)))
			})...)
		}
		return append(mapped, ']')
	})
}

// mapMember returns an object in which f has replaced the value of one key.
func mapMember(object json.RawMessage, name string, f func(json.RawMessage) json.RawMessage) json.RawMessage {
	mapped := []byte{'{'}
	for member, value := range jsonrpc.All(object) {
		if len(mapped) > 1 {
			mapped = append(mapped, ',')
		}
		if member == name {
			value = f(value)
		}
		mapped = append(append(jsonrpc.AppendString(mapped, member), ':'), value...)
	}
	return append(mapped, '}')
}
