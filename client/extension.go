package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Extension is an extension of the protocol that a client supports (2026-07-28,
// basic/versioning, Extension Negotiation). The client declares it in each request, or in
// the handshake of a session, there also as an experimental capability. Its methods are
// called with [Client.CallExtension].
type Extension struct {
	// ID is the name of the extension, such as "com.example/jobs". It must satisfy
	// mcp.CheckExtensionID.
	ID string
	// Settings are declared to servers. They must encode to a JSON object; nil means {}.
	Settings any
	// Requires, if set, reports what the extension lacks on the client, which declares these capabilities: a part of
	// the protocol, such as sampling, or another extension. With an error, [Dialer.Dial] fails.
	Requires func(have mcp.ClientCapabilities) error
	// ResultTypes are result types that the extension adds to those of the protocol, such as
	// mcp.ResultTypeTask. Middleware and [Client.CallExtension] receive results of these
	// types. Other methods return an error for one that middleware has not replaced.
	ResultTypes []string
	// Notifications contains a function for each notification method of the extension. If the notification belongs to a
	// known request, the context contains the values of the request's context, as for Dialer.OnLog. params is the JSON
	// object with _meta, or nil; the function must not keep it. The functions run in the goroutine that receives
	// messages, possibly concurrently, so they must not block or use the client.
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

// checkExtensions returns an error for the first extension that cannot be declared, or that needs more than a client
// with these capabilities offers.
func checkExtensions(all []Extension, capabilities func() mcp.ClientCapabilities) error {
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
	for i := range all {
		if e := &all[i]; e.Requires != nil {
			if err := e.Requires(capabilities()); err != nil {
				return fmt.Errorf("Dialer.Extensions: %q lacks what it requires: %w", e.ID, err)
			}
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

// notifications returns the notification functions of all extensions, each wrapped by isolate.
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

// CallExtension sends a request of an extension, as [Client.CallExtension] does, and decodes its result into Out.
func CallExtension[Out any](ctx context.Context, c *Client, method string, params any,
	options ...CallOption) (Out, error) {
	var out Out
	raw, err := c.CallExtension(ctx, method, params, options...)
	if err != nil {
		return out, err
	}
	if err := schema.Decode(raw, &out); err != nil {
		return out, fmt.Errorf("%s: cannot decode the result as %T: %w", method, out, err)
	}
	return out, nil
}

// CallExtension sends a request of an extension and returns its result, a JSON object. params is a value that encodes
// to a JSON object without _meta, or nil for none; use [WithMeta] for entries of _meta. A method of the protocol itself
// is an error. The time-out is Timeouts.Tool.
//
// An error that the server reports is a *jsonrpc.Error, with the code
// jsonrpc.CodeMethodNotFound if the server does not support the extension, and
// mcp.CodeMissingCapability if Dialer.Extensions lacks it. CallExtension does not repeat a
// request that the server may have acted on.
func (c *Client) CallExtension(ctx context.Context, method string, params any,
	options ...CallOption) (json.RawMessage, error) {
	o, err := optionsOf(options, otherRequest, c.dialer.Timeouts.Tool)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	raw, err := extensionParams(method, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	name, _ := jsonrpc.Get(raw, revision.NameMember(method))
	if r := c.Revision(); !revision.LeavesToExtensions(method, r) {
		return nil, fmt.Errorf("%s: %w, but of the protocol in %s", method, errNotExtension, r)
	}
	return c.request(ctx, func(*link) *outbound.Request {
		return &outbound.Request{
			Method: method, Params: raw, Name: jsonrpc.Unquote(name), Meta: o.meta,
			Capabilities: o.capabilities, AnyResultType: true,
			Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max, OnProgress: c.dialer.progressContained(o.onProgress),
		}
	}, false)
}

var errNotExtension = errors.New("the method does not belong to an extension")

// NotifyExtension sends a notification of an extension. method begins with "notifications/";
// params are as for [Client.CallExtension]. It returns when the notification is sent. Servers
// do not answer notifications, so it is unknown whether the server supports it.
func (c *Client) NotifyExtension(ctx context.Context, method string, params any) error {
	raw, err := extensionParams(method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	l, err := c.connected(ctx)
	if err != nil {
		return err
	}
	defer func() { c.release(l, l.failed() != nil) }()
	if !strings.HasPrefix(method, revision.NotificationPrefix) {
		return fmt.Errorf("%s: the name of a notification must begin with %s", method, revision.NotificationPrefix)
	}
	if !revision.LeavesToExtensions(method, l.revision) {
		return fmt.Errorf("%s: %w, but of the protocol in %s", method, errNotExtension, l.revision)
	}
	return c.notify(ctx, l, method, raw)
}

// notify sends a notification through the middleware.
func (c *Client) notify(ctx context.Context, l *link, method string, params []byte) error {
	_, err := c.dialer.sending.Do(ctx, l.revision, &outbound.Request{Method: method, Params: params},
		func(ctx context.Context, req *outbound.Request) (json.RawMessage, error) {
			return json.RawMessage("{}"), l.notify(ctx, req)
		})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// extensionParams encodes the params of an extension's method. It returns nil for nil.
func extensionParams(method string, params any) ([]byte, error) {
	if method == "" {
		return nil, errors.New("the method must not be empty")
	}
	if params == nil {
		return nil, nil
	}
	raw, err := schema.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the params: %w", err)
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("the params must encode to a JSON object, not %.20s", raw)
	}
	if _, ok := jsonrpc.Get(raw, "_meta"); ok {
		return nil, errors.New("the params must not contain _meta: use the option WithMeta")
	}
	return raw, nil
}
