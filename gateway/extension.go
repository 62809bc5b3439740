package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// notifyTimeout limits the time to forward a notification of an extension. Until then, the server does not read
// further messages of the client.
const notifyTimeout = 5 * time.Second

// extensions describes what a Gateway forwards of its servers' extensions. Only New and Run change it.
type extensions struct {
	byServer   map[string][]host.Extension
	registered map[string]host.Extension           // by ID, merged from all servers
	owners     atomic.Pointer[map[string][]string] // servers by method
}

// registerExtensions registers the extensions whose methods the gateway forwards, and removes all others. A method
// that several servers offer is not forwarded. It returns an error for each such method, and for each extension that
// cannot be registered.
func (g *Gateway) registerExtensions(order []string) error {
	x := &g.extensions
	owners := make(map[string][]string)
	wanted := make(map[string]host.Extension)
	for _, name := range order {
		for _, e := range x.byServer[name] {
			merged := wanted[e.ID]
			merged.ID = e.ID
			if merged.Settings == nil {
				merged.Settings = e.Settings
			}
			merged.Requests = append(slices.Clip(merged.Requests), e.Requests...)
			merged.Notifications = append(slices.Clip(merged.Notifications), e.Notifications...)
			wanted[e.ID] = merged
			for _, method := range slices.Concat(e.Requests, e.Notifications) {
				owners[method] = append(owners[method], name)
			}
		}
	}
	x.owners.Store(&owners)
	for id, e := range x.registered {
		if !reflect.DeepEqual(wanted[id], e) {
			g.server.RemoveExtension(id)
			delete(x.registered, id)
		}
	}
	var errs []error
	for _, method := range slices.Sorted(maps.Keys(owners)) {
		if len(owners[method]) > 1 {
			_, err := g.ownerOf(method)
			errs = append(errs, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if _, same := x.registered[id]; !same {
			err := g.server.RegisterExtension(g.forwardedExtension(wanted[id]))
			if errs = append(errs, err); err == nil {
				x.registered[id] = wanted[id]
			}
		}
	}
	return errors.Join(errs...)
}

// addExtensions registers the extensions of the servers of the host.
func (g *Gateway) addExtensions() error {
	all := g.host.Status()
	if len(all) == 0 { // the host has not been started
		for _, config := range g.host.Servers {
			status := host.ServerStatus{Name: config.Name}
			status.Config = &config
			all = append(all, status)
		}
	}
	g.extensions.byServer, g.extensions.registered = make(map[string][]host.Extension), make(map[string]host.Extension)
	var order []string
	for _, status := range all {
		order = append(order, status.Name)
		g.extensions.byServer[status.Name] = extensionsOf(&status)
	}
	return g.registerExtensions(order)
}

// updateExtensions makes the registered extensions match the status of a server.
func (g *Gateway) updateExtensions(status host.ServerStatus) {
	x := &g.extensions
	now := extensionsOf(&status)
	same := reflect.DeepEqual(x.byServer[status.Name], now)
	if x.byServer[status.Name] = now; status.State == host.Removed {
		delete(x.byServer, status.Name)
	}
	if same {
		return
	}
	if err := g.registerExtensions(g.present()); err != nil {
		g.logger().Warn("cannot forward extensions", "error", err)
	}
}

func extensionsOf(status *host.ServerStatus) []host.Extension {
	return status.Config.Extensions
}

// forwardedExtension returns an extension whose methods are forwarded.
func (g *Gateway) forwardedExtension(e host.Extension) server.Extension {
	forwarded := server.Extension{ID: e.ID, Requests: make(map[string]func(context.Context,
		json.RawMessage) (any, error)),
		Notifications: make(map[string]func(context.Context, json.RawMessage))}
	if e.Settings != nil {
		forwarded.Settings = e.Settings
	}
	for _, method := range e.Requests {
		forwarded.Requests[method] = g.forwardRequest(method)
	}
	for _, method := range e.Notifications {
		forwarded.Notifications[method] = g.forwardNotification(method)
	}
	return forwarded
}

// ownerOf returns the server that a method belongs to, or an error for the client.
func (g *Gateway) ownerOf(method string) (string, error) {
	switch names := (*g.extensions.owners.Load())[method]; {
	case len(names) == 0: // the method was removed a moment ago
		return "", jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is not available any more", method)
	case len(names) > 1:
		return "", jsonrpc.Errorf(jsonrpc.CodeInternalError,
			"method %q belongs to several servers: configure it for one of %q", method, names)
	case g.Toolset != nil && !glob.Any(g.Toolset.Servers, names[0]):
		return "", jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is not available in this toolset", method)
	default:
		return names[0], nil
	}
}

// forwardRequest returns a handler that forwards the requests of an extension.
func (g *Gateway) forwardRequest(method string) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		to, err := g.ownerOf(method)
		if err != nil {
			return nil, err
		}
		result, err := g.host.Client(to).CallExtension(g.withCaller(ctx), method,
			jsonrpc.Without(params, "_meta"),
			extensionOptions(ctx, g.options().extension)...)
		if err != nil {
			return nil, g.extensionError(ctx, to, err)
		}
		return forwardedResult(result), nil
	}
}

// forwardNotification returns a handler that forwards the notifications of an extension.
func (g *Gateway) forwardNotification(method string) func(context.Context, json.RawMessage) {
	return func(ctx context.Context, params json.RawMessage) {
		to, err := g.ownerOf(method)
		if err == nil {
			limited, cancel := context.WithTimeout(g.withCaller(ctx), notifyTimeout)
			defer cancel()
			err = g.host.Client(to).NotifyExtension(limited, method, jsonrpc.Without(params, "_meta"))
		}
		if err != nil {
			g.logger().InfoContext(ctx, "notification not forwarded", slog.String("method", method),
				slog.Any("error", err))
		}
	}
}

// extensionError returns the error for a request of an extension. If a server does not know the method, or a
// capability is missing, the client is told.
func (g *Gateway) extensionError(ctx context.Context, serverName string, err error) error {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case errors.Is(err, host.ErrUnknown):
		return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "%s", err)
	case ok && reported.Code == jsonrpc.CodeMethodNotFound:
		return jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "server %q: %s", serverName, reported.Message)
	}
	return g.protocolError(ctx, serverName, err)
}

// forwardedResult returns a result without the parts that belong to the connection between the gateway and
// the server.
func forwardedResult(result json.RawMessage) json.RawMessage {
	if kind, _ := jsonrpc.Get(result, "resultType"); jsonrpc.Unquote(kind) == mcp.ResultTypeComplete {
		result = jsonrpc.Without(result, "resultType")
	}
	return mcp.WithForwardableMeta(result)
}
