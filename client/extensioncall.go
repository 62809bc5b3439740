package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// CallExtension sends a request of an extension and returns its result, a JSON object.
// params is a value that encodes to a JSON object without _meta, or nil for none; use
// [WithMeta] for members of _meta. A method of the protocol itself is an error. The time-out
// is Timeouts.Tool.
//
// An error that the server reports is a *jsonrpc.Error, with the code
// jsonrpc.CodeMethodNotFound if the server does not support the extension, and
// mcp.CodeMissingCapability if Dialer.Extensions lacks it. CallExtension does not repeat a
// request that the server may have acted on.
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
		return nil, fmt.Errorf("%s: %w, but of the protocol in %s", method, errNotExtension, r)
	}
	return c.request(ctx, func(*link) *outbound.Request {
		return &outbound.Request{
			Method: method, Params: raw, Name: jsonrpc.Unquote(name), Meta: o.meta, AnyResultType: true,
			Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max, OnProgress: c.dialer.progressContained(o.onProgress),
		}
	}, false)
}

var errNotExtension = errors.New("the method is not one of an extension")

// CallExtension sends a request of an extension, as [Client.CallExtension] does, and decodes
// its result into Out.
func CallExtension[Out any](ctx context.Context, c *Client, method string, params any, options ...CallOption) (Out, error) {
	var out Out
	raw, err := c.CallExtension(ctx, method, params, options...)
	if err != nil {
		return out, err
	}
	if err := schema.Decode(raw, &out); err != nil {
		return out, fmt.Errorf("%w: %s: cannot decode the result into %T: %w", call.ErrInvalidResponse, method, out, err)
	}
	return out, nil
}

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
	if err := l.notify(ctx, method, raw); err != nil {
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
		return nil, errors.New("the params must not have a member _meta: use the option WithMeta")
	}
	return raw, nil
}
