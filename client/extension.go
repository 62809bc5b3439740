package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Extension is an extension of the protocol that a client supports (2026-07-28,
// basic/versioning, Extension Negotiation). The client declares it in each request, or in
// the handshake of a session, there also as an experimental capability. Its methods are
// called with [CallExtension].
type Extension struct {
	// ID is the name of the extension, such as "com.example/jobs". It must satisfy
	// mcp.CheckExtensionID.
	ID string
	// Settings are declared to servers. They must encode to a JSON object; nil means {}.
	Settings any
	// ResultTypes are result types that the extension adds to those of the protocol, such as
	// mcp.ResultTypeTask. Middleware and [Client.CallExtension] receive results of these
	// types. Other methods return an error for one that middleware has not replaced.
	ResultTypes []string
	// Notifications has a function for each notification method of the extension. The context has
	// the values of that of the request that the notification belongs to, if that is known, as for
	// Dialer.OnLog. params is the JSON object with _meta, or nil; the function must not keep it. The
	// functions run in the goroutine that receives messages, and possibly concurrently: they must not
	// block or use the client.
	Notifications map[string]func(ctx context.Context, params json.RawMessage)
}

func (e *Extension) settings() (json.RawMessage, error) {
	if e.Settings == nil {
		return json.RawMessage("{}"), nil
	}
	raw, err := schema.Marshal(e.Settings)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the settings: %w", err)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("the settings must encode to a JSON object, not %.20s", raw)
	}
	return raw, nil
}

// checkExtensions returns an error for the first extension that cannot be declared.
func checkExtensions(all []Extension) error {
	methods := make(map[string]bool)
	for i := range all {
		e := &all[i]
		if err := e.check(methods); err != nil {
			return fmt.Errorf("Dialer.Extensions: %q: %w", e.ID, err)
		}
		if slices.ContainsFunc(all[:i], func(other Extension) bool { return other.ID == e.ID }) {
			return fmt.Errorf("Dialer.Extensions: duplicate extension %q", e.ID)
		}
	}
	return nil
}

// check adds the notification methods to methods.
func (e *Extension) check(methods map[string]bool) error {
	if err := mcp.CheckExtensionID(e.ID); err != nil {
		return err
	}
	if _, err := e.settings(); err != nil {
		return err
	}
	for _, kind := range e.ResultTypes {
		if kind == "" || kind == mcp.ResultTypeComplete || kind == mcp.ResultTypeInputRequired {
			return fmt.Errorf("the result type %q is reserved for the protocol", kind)
		}
	}
	for method, f := range e.Notifications {
		switch err := revision.CheckExtensionMethod(method, e.ID); {
		case err != nil:
			return err
		case f == nil:
			return fmt.Errorf("%s: the function must not be nil", method)
		case !strings.HasPrefix(method, revision.NotificationPrefix):
			return fmt.Errorf("%s: the name of a notification must begin with %s", method, revision.NotificationPrefix)
		case methods[method]:
			return fmt.Errorf("the method %s belongs to another extension", method)
		}
		methods[method] = true
	}
	return nil
}

// notifications returns the notification functions of all extensions, called by isolate.
func (d *Dialer) notifications() map[string]func(context.Context, json.RawMessage) {
	var all map[string]func(context.Context, json.RawMessage)
	for _, e := range d.Extensions {
		for method, f := range e.Notifications {
			if all == nil {
				all = make(map[string]func(context.Context, json.RawMessage))
			}
			all[method] = func(ctx context.Context, params json.RawMessage) {
				_ = d.isolate(method, func() { f(ctx, params) })
			}
		}
	}
	return all
}

func (d *Dialer) resultTypes() (all []string) {
	for _, e := range d.Extensions {
		all = append(all, e.ResultTypes...)
	}
	return all
}

// Extension returns the settings that the server declares for an extension, a JSON object.
// ok is false if the server does not declare the extension. In a session the server may
// declare it as an experimental capability.
func (s ServerDetails) Extension(id string) (settings json.RawMessage, ok bool) {
	settings, ok = s.Capabilities.Extensions[id]
	if !ok {
		settings, ok = s.Capabilities.Experimental[id]
	}
	return settings, ok && len(settings) > 0 && settings[0] == '{'
}
