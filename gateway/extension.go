package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// notifyTimeout limits the time to forward a notification of an extension. The server does not read further messages of the
// client until then.
const notifyTimeout = 5 * time.Second

// addExtensions registers the extensions of the servers, whose methods it forwards. A method that several servers
// have is not forwarded. It returns an error for each such method, and for each extension that cannot be registered.
func (g *Gateway) addExtensions(servers []host.ServerConfig) error {
	owners := make(map[string][]string) // by method
	all := make(map[string]*server.Extension)
	for _, config := range servers {
		for _, e := range config.Extensions {
			added := all[e.ID]
			if added == nil {
				added = &server.Extension{ID: e.ID, Requests: make(map[string]server.ExtensionRequest), Notifications: make(map[string]server.ExtensionNotification)}
				all[e.ID] = added
			}
			if added.Settings == nil && e.Settings != nil {
				added.Settings = e.Settings
			}
			for _, method := range e.Requests {
				owners[method] = append(owners[method], config.Name)
				added.Requests[method] = g.forwardRequest(owners, method)
			}
			for _, method := range e.Notifications {
				owners[method] = append(owners[method], config.Name)
				added.Notifications[method] = g.forwardNotification(owners, method)
			}
		}
	}
	var errs []error
	for _, method := range slices.Sorted(maps.Keys(owners)) {
		if _, err := g.ownerOf(owners, method); err != nil {
			errs = append(errs, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		errs = append(errs, g.server.RegisterExtension(*all[id]))
	}
	return errors.Join(errs...)
}

// ownerOf returns the server that a method belongs to, or an error for the client.
func (g *Gateway) ownerOf(owners map[string][]string, method string) (string, error) {
	switch names := owners[method]; {
	case len(names) > 1:
		return "", jsonrpc.Errorf(jsonrpc.CodeInternalError, "method %q belongs to several servers: configure it for one of %q", method, names)
	case g.Toolset != nil && !glob.Any(g.Toolset.Servers, names[0]):
		return "", jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is not available in this toolset", method)
	default:
		return names[0], nil
	}
}

// forwardRequest returns a handler that forwards the requests of an extension. Owners are complete when it serves.
func (g *Gateway) forwardRequest(owners map[string][]string, method string) server.ExtensionRequest {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		to, err := g.ownerOf(owners, method)
		if err != nil {
			return nil, err
		}
		result, err := g.host.CallExtension(ctx, to, method, without(params, "_meta"), g.callOptions(ctx)...)
		if err != nil {
			return nil, g.extensionError(ctx, to, err)
		}
		return forwardedResult(result), nil
	}
}

// forwardNotification returns a handler that forwards the notifications of an extension.
func (g *Gateway) forwardNotification(owners map[string][]string, method string) server.ExtensionNotification {
	return func(ctx context.Context, params json.RawMessage) {
		to, err := g.ownerOf(owners, method)
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, notifyTimeout)
			defer cancel()
			err = g.host.NotifyExtension(limited, to, method, without(params, "_meta"))
		}
		if err != nil {
			g.logger().InfoContext(ctx, "notification not forwarded", slog.String("method", method), slog.Any("error", err))
		}
	}
}

// extensionError returns the error for a request of an extension. That a server does not have the method, or lacks a
// capability, is for the client.
func (g *Gateway) extensionError(ctx context.Context, serverName string, err error) error {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case errors.Is(err, host.ErrUnknownMethod), errors.Is(err, host.ErrUnknownServer):
		return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s", err)
	case ok && reported.Code == jsonrpc.CodeMethodNotFound:
		return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "server %q: %s", serverName, reported.Message)
	}
	return g.protocolError(ctx, serverName, err)
}

// forwardedResult returns a result without what belongs to the connection between the gateway and the server.
func forwardedResult(result json.RawMessage) json.RawMessage {
	removed := []string{"_meta"}
	if kind, _ := jsonrpc.Get(result, "resultType"); jsonrpc.Unquote(kind) == mcp.ResultTypeComplete {
		removed = append(removed, "resultType")
	}
	raw, _ := jsonrpc.Get(result, "_meta")
	meta := forwardableMembers(raw)
	result = without(result, removed...)
	if len(meta) == 0 {
		return result
	}
	encoded, err := json.Marshal(meta)
	if err != nil {
		return result
	}
	head := fmt.Appendf(nil, `{"_meta":%s`, encoded)
	if len(result) > 2 {
		head = append(head, ',')
	}
	return append(head, result[1:]...)
}
