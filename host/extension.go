package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// Extension is an extension of the protocol that a gateway forwards (2026-07-28, basic/versioning, Extension
// Negotiation).
type Extension struct {
	// ID is the name of the extension, such as "com.example/jobs". See mcp.CheckExtensionID. Tasks are forwarded
	// without it.
	ID string
	// Settings is a JSON object that is declared to the server and to clients. Nil means {}.
	Settings json.RawMessage
	// Requests are the methods of the requests of clients.
	Requests []string
	// Notifications are the notification methods, of clients and of the server. A notification of the server goes to
	// the client whose call it belongs to, if that client declares the extension, or after the call to its session.
	// Others are dropped.
	Notifications []string
}

// NotifyExtension sends a notification of an extension to the server; see [Client.CallExtension]. params is a
// JSON object without _meta, or nil. NotifyExtension returns when the notification is sent.
func (c Client) NotifyExtension(ctx context.Context, method string, params json.RawMessage) error {
	_, err := extend(ctx, c.host, c.server, method, params, true,
		func(ctx context.Context, c *client.Client, params any) (*struct{}, error) {
			return &struct{}{}, c.NotifyExtension(ctx, method, params)
		})
	return err
}

// extend sends a message of an extension.
func extend[Result any](ctx context.Context, h *Host, server, method string, params any, notification bool,
	send func(context.Context, *client.Client, any) (*Result, error)) (*Result, error) {
	s, err := h.enter(server)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	id, ok := s.extensionOf(method, notification)
	if !ok {
		return nil, fmt.Errorf("%w of server %q", unknown("method", method), server)
	}
	if raw, ok := params.(json.RawMessage); ok && raw == nil {
		params = nil
	}
	r := Request{Method: method, Server: server, Kind: KindExtension, Name: id}
	return guard(ctx, h, s, r, params, func(arguments any) (*Result, error) {
		return use(ctx, s, func(ctx context.Context, c *client.Client) (*Result, error) {
			return send(ctx, c, arguments)
		})
	})
}

// extensionOf returns the ID of the extension that a method belongs to. The extension of skills needs no configuration.
func (s *supervisor) extensionOf(method string, notification bool) (id string, ok bool) {
	switch method {
	case mcp.MethodListSkills, mcp.MethodGetSkill, mcp.MethodReadDirectory:
		return mcp.ExtensionSkills, true
	}
	for _, e := range s.config.Extensions {
		methods := e.Requests
		if notification {
			methods = e.Notifications
		}
		if slices.Contains(methods, method) {
			return e.ID, true
		}
	}
	return "", false
}

// checkExtensions returns an error for the first extension that is invalid.
func checkExtensions(all []Extension) error {
	ids, methods := make(map[string]bool), make(map[string]bool)
	for _, e := range all {
		if err := mcp.CheckExtensionID(e.ID); err != nil {
			return err
		}
		switch {
		case e.ID == mcp.ExtensionTasks:
			return fmt.Errorf("extension %q must not be listed: tasks are forwarded without it", e.ID)
		case e.ID == mcp.ExtensionSkills:
			return fmt.Errorf("extension %q must not be listed: skills are forwarded without it", e.ID)
		case ids[e.ID]:
			return fmt.Errorf("extension %q must not be listed twice", e.ID)
		case e.Settings != nil && checkObject(e.Settings) != nil:
			return fmt.Errorf("extension %q: Settings must be a JSON object", e.ID)
		}
		ids[e.ID] = true
		for _, method := range slices.Concat(e.Requests, e.Notifications) {
			if err := revision.CheckExtensionMethod(method, e.ID); err != nil {
				return fmt.Errorf("extension %q: %w", e.ID, err)
			}
			if isNotification := strings.HasPrefix(method,
				revision.NotificationPrefix); isNotification != slices.Contains(e.Notifications, method) {
				return fmt.Errorf("extension %q: %s: the names of notifications, and of no requests, must begin with "+
					"%s", e.ID, method, revision.NotificationPrefix)
			}
			if methods[method] {
				return fmt.Errorf("extension %q: method %s must not be listed twice", e.ID, method)
			}
			methods[method] = true
		}
	}
	return nil
}

// setExtensions makes the clients of the server declare its extensions and forward its notifications.
func (s *supervisor) setExtensions() {
	d := &s.dialer
	for _, e := range s.config.Extensions {
		supported := client.Extension{ID: e.ID, Notifications: make(map[string]func(context.Context, json.RawMessage))}
		if e.Settings != nil {
			supported.Settings = e.Settings
		}
		for _, method := range e.Notifications {
			supported.Notifications[method] = func(ctx context.Context, params json.RawMessage) {
				if c := callerFrom(ctx); c != nil && c.Notify != nil {
					c.Notify(ctx, e.ID, method, mcp.WithForwardableMeta(params))
				}
			}
		}
		d.Extensions = append(d.Extensions, supported)
	}
}

type notificationFunc = func(context.Context, json.RawMessage)

// withNotifications returns extensions whose functions for notifications are wrapped.
func withNotifications(all []client.Extension, wrap func(notificationFunc) notificationFunc) []client.Extension {
	all = slices.Clone(all)
	for i := range all {
		all[i].Notifications = maps.Clone(all[i].Notifications)
		for method, f := range all[i].Notifications {
			all[i].Notifications[method] = wrap(f)
		}
	}
	return all
}
