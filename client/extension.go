package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// SupportedExtension is an addition to the protocol that a client supports (2026-07-28,
// basic/versioning, Extension Negotiation). Servers are told of it with each request; in
// revisions with a handshake there, and as an experimental capability, too.
type SupportedExtension struct {
	// ID names the extension: "com.example/jobs". See mcp.CheckExtensionID.
	ID string
	// Settings are what the extension says servers are told. They encode to a JSON object;
	// nil is the empty one.
	Settings any
	// ResultTypes are those that the extension adds to the protocol's, such as
	// mcp.ResultTypeTask. Middleware, and [Client.CallExtension], see results of these types;
	// elsewhere one that the middleware has left is an error.
	ResultTypes []string
	// Notifications take the extension's notifications from servers, by method. Params are
	// the JSON object with _meta, or nil, and must not be kept. The functions are called
	// from the goroutine that receives: they must neither block nor use the client, and
	// may be called concurrently.
	Notifications map[string]func(params json.RawMessage)
}

func (e *SupportedExtension) settings() (json.RawMessage, error) {
	if e.Settings == nil {
		return json.RawMessage("{}"), nil
	}
	raw, err := json.Marshal(e.Settings)
	if err != nil {
		return nil, fmt.Errorf("the settings cannot be encoded: %w", err)
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("the settings must encode to a JSON object, not %.20s", raw)
	}
	return raw, nil
}

// checkExtensions returns why they cannot be declared, or nil.
func checkExtensions(all []SupportedExtension) error {
	methods := make(map[string]bool)
	for i := range all {
		e := &all[i]
		if err := e.check(methods); err != nil {
			return fmt.Errorf("Dialer.Extensions: %q: %w", e.ID, err)
		}
		if slices.ContainsFunc(all[:i], func(other SupportedExtension) bool { return other.ID == e.ID }) {
			return fmt.Errorf("Dialer.Extensions: %q is there twice", e.ID)
		}
	}
	return nil
}

func (e *SupportedExtension) check(methods map[string]bool) error {
	if err := mcp.CheckExtensionID(e.ID); err != nil {
		return err
	}
	if _, err := e.settings(); err != nil {
		return err
	}
	for _, kind := range e.ResultTypes {
		if kind == "" || kind == mcp.ResultTypeComplete || kind == mcp.ResultTypeInputRequired {
			return fmt.Errorf("the result type %q is the protocol's", kind)
		}
	}
	for method, take := range e.Notifications {
		switch err := revision.CheckExtensionMethod(method, e.ID); {
		case err != nil:
			return err
		case take == nil:
			return fmt.Errorf("%s: the function is nil", method)
		case !strings.HasPrefix(method, revision.NotificationPrefix):
			return fmt.Errorf("%s: a notification's name begins with %s", method, revision.NotificationPrefix)
		case methods[method]:
			return fmt.Errorf("the method %s is another extension's", method)
		}
		methods[method] = true
	}
	return nil
}

// notifications are the functions of all extensions, contained.
func (d *Dialer) notifications() map[string]func(json.RawMessage) {
	var all map[string]func(json.RawMessage)
	for _, e := range d.Extensions {
		for method, take := range e.Notifications {
			if all == nil {
				all = make(map[string]func(json.RawMessage))
			}
			all[method] = func(params json.RawMessage) {
				defer d.contain(method, nil)
				take(params)
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

// Extension returns the settings with which the server has declared an extension, a JSON
// object, and false if it has not. In revisions with a handshake it may be one of the
// experimental capabilities.
func (s ServerDetails) Extension(id string) (settings json.RawMessage, ok bool) {
	settings, ok = s.Capabilities.Extensions[id]
	if !ok {
		settings, ok = s.Capabilities.Experimental[id]
	}
	return settings, ok && len(settings) > 0 && settings[0] == '{'
}

// CallExtension sends a request of an extension and returns the result, a JSON object. Params
// are anything that encodes to a JSON object, or nil for none; further members of _meta
// go in the option [WithMeta]. Timeouts.Tool bounds the wait, unless an option says
// otherwise.
//
// What the server reports is a *jsonrpc.Error: of the code
// jsonrpc.CodeMethodNotFound if it knows nothing of the extension,
// mcp.CodeMissingCapability if this client's Dialer has not declared it. A request that
// may have been acted on is never sent again. Methods of the protocol have doors of
// their own, and are refused here.
func (c *Client) CallExtension(ctx context.Context, method string, params any, options ...CallOption) (json.RawMessage, error) {
	o, err := optionsOf(options, c.dialer.Timeouts.Tool)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	raw, err := extensionParams(method, params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	name, _ := jsonrpc.Get(raw, revision.NameMember(method))
	if r := c.Revision(); !revision.LeavesToExtensions(method, r) {
		return nil, fmt.Errorf("%s: %w: it is the protocol's own, in %s", method, errNotExtension, r)
	}
	return c.request(ctx, func(*link) *rpc.Request {
		return &rpc.Request{
			Method: method, Params: raw, Name: jsonrpc.Unquote(name), Meta: o.meta, AnyResultType: true,
			Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max, OnProgress: c.dialer.progressContained(o.onProgress),
		}
	}, false)
}

var errNotExtension = errors.New("the method is of no extension")

// CallExtension sends a request of an extension, as [Client.CallExtension] does, and decodes its
// result into Out.
func CallExtension[Out any](ctx context.Context, c *Client, method string, params any, options ...CallOption) (Out, error) {
	var out Out
	raw, err := c.CallExtension(ctx, method, params, options...)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("%w: %s: the result does not fit %T: %w", ErrInvalidResponse, method, out, err)
	}
	return out, nil
}

// NotifyExtension sends a notification of an extension. Params are as for [Client.CallExtension]. It
// returns when the notification is sent; whether the server cares is unknown.
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
	if !revision.LeavesToExtensions(method, l.revision) || !strings.HasPrefix(method, revision.NotificationPrefix) {
		return fmt.Errorf("%s: %w: its notifications begin with %s", method, errNotExtension, revision.NotificationPrefix)
	}
	if err := l.tell(ctx, method, raw); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// extensionParams encodes the params of an extension's method; nil for none.
func extensionParams(method string, params any) ([]byte, error) {
	if method == "" {
		return nil, errors.New("the method has no name")
	}
	if params == nil {
		return nil, nil
	}
	raw, err := schema.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("the params cannot be encoded: %w", err)
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("the params must encode to a JSON object, not %.20s", raw)
	}
	if _, ok := jsonrpc.Get(raw, "_meta"); ok {
		return nil, errors.New("the params have a _meta: use the option WithMeta for its members")
	}
	return raw, nil
}
