package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// ReadResource reads a resource. It takes a fresh result from the cache; see
// [WithRefresh]. The time-out is Timeouts.Read.
//
// An error that the server reports is a *jsonrpc.Error; if the resource does not exist, it
// is also a call.ErrResourceNotFound. If the connection is lost, ReadResource reconnects and
// sends the request once more.
func (c *Client) ReadResource(ctx context.Context, uri string, options ...CallOption) (*mcp.ReadResourceResult, error) {
	params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
	result, err := get[mcp.ReadResourceResult](ctx, c, outbound.Request{Method: mcp.MethodReadResource, Name: uri,
		Params: params}, options)
	if isResourceNotFound(err) {
		return nil, fmt.Errorf("%w: %w", call.ErrResourceNotFound, err)
	}
	return result, err
}

// isResourceNotFound reports whether a server reports that a resource does not exist: by a
// separate code until 2025-11-25, then by CodeInvalidParams with the URI in the data
// (2026-07-28, server/resources, Error Handling).
func isResourceNotFound(err error) bool {
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) {
		return false
	}
	switch reported.Code {
	case mcp.CodeResourceNotFound:
		return true
	case jsonrpc.CodeInvalidParams:
		uri, ok := jsonrpc.Get(reported.Data, "uri")
		return ok && uri[0] == '"'
	}
	return false
}

// get sends a request without side effects and decodes its result.
func get[Result any](ctx context.Context, c *Client, req outbound.Request, options []CallOption) (*Result, error) {
	kind := readRequest
	if req.Method == mcp.MethodGetPrompt {
		kind = promptRequest
	}
	o, err := optionsOf(options, kind, c.dialer.Timeouts.Read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Method, err)
	}
	raw, cached, err := c.fetch(ctx, req, o)
	if err != nil {
		return nil, err
	}
	result, raw, err := decodeResult[Result](c, req.Method, raw, cached)
	if err == nil && o.keepSource {
		setSource(result, raw)
	}
	return result, err
}

// setSource sets the Source of a result of a prompt or resource.
func setSource(result any, raw json.RawMessage) {
	switch r := result.(type) {
	case *mcp.ReadResourceResult:
		r.Source = raw
	case *mcp.GetPromptResult:
		r.Source = raw
	}
}

// GetPrompt requests a prompt. arguments is a value that encodes to a JSON object of strings,
// such as a map[string]string, or nil for none; numbers and booleans are sent as strings, and
// null values are left out. The time-out is Timeouts.Read.
//
// An error that the server reports is a *jsonrpc.Error. If the connection is lost, GetPrompt
// reconnects and sends the request once more.
func (c *Client) GetPrompt(ctx context.Context, name string, arguments any,
	options ...CallOption) (*mcp.GetPromptResult, error) {
	params, err := promptParams(name, arguments)
	if err != nil {
		return nil, fmt.Errorf("prompts/get %s: %w", name, err)
	}
	result, err := get[mcp.GetPromptResult](ctx, c, outbound.Request{Method: mcp.MethodGetPrompt, Name: name,
		Params: params}, options)
	if err != nil {
		return nil, err
	}
	for _, message := range result.Messages {
		c.filterLinks([]mcp.Content{message.Content})
	}
	return result, nil
}

// promptParams encodes the params of prompts/get.
func promptParams(name string, arguments any) ([]byte, error) {
	params := jsonrpc.AppendString(append(make([]byte, 0, 128), `{"name":`...), name)
	if arguments == nil {
		return append(params, '}'), nil
	}
	raw, err := schema.MarshalArguments(arguments)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the arguments: %w", err)
	}
	if err := jsonrpc.Check(raw, jsonrpc.Limits{}); err != nil || raw[0] != '{' {
		return nil, fmt.Errorf("the arguments must encode to a JSON object, not %.20s", raw)
	}
	params = append(params, `,"arguments":{`...)
	first := true
	for key, value := range jsonrpc.All(raw) {
		if value[0] == 'n' {
			continue // null
		}
		if value[0] == '{' || value[0] == '[' {
			return nil, fmt.Errorf("the argument %q must be a string, a number or a boolean", key)
		}
		if !first {
			params = append(params, ',')
		}
		first = false
		params = append(jsonrpc.AppendString(params, key), ':')
		if value[0] == '"' {
			params = append(params, value...)
		} else {
			params = jsonrpc.AppendString(params, string(value))
		}
	}
	return append(params, `}}`...), nil
}

// Complete returns values that complete an argument of a prompt or a variable of a resource
// template, at most 100:
//
//	c.Complete(ctx, mcp.CompleteParams{
//		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"},
//		Argument: mcp.CompleteArgument{Name: "language", Value: "py"},
//	})
//
// Servers before 2025-06-18 do not receive params.Context. The option [WithMeta] replaces
// params.Meta. The time-out is Timeouts.Read.
func (c *Client) Complete(ctx context.Context, params mcp.CompleteParams,
	options ...CallOption) (*mcp.Completion, error) {
	meta := params.Meta
	params.Meta = nil
	o, err := optionsOf(append([]CallOption{WithMeta(meta)}, options...), otherRequest, c.dialer.Timeouts.Read)
	if err != nil {
		return nil, fmt.Errorf("completion/complete: %w", err)
	}
	raw, err := c.request(ctx, func(l *link) *outbound.Request {
		body, _ := schema.Marshal(revision.DowngradeCompletion(l.revision, params)) // strings only, in older revisions
		return &outbound.Request{
			Method: mcp.MethodComplete, Params: body, Meta: o.meta,
			Capabilities: o.capabilities, OnProgress: c.dialer.progressContained(o.onProgress),
			Timeout: o.timeout, MaxTimeout: c.dialer.Timeouts.Max,
		}
	}, true)
	if err != nil {
		return nil, err
	}
	result, _, err := decodeResult[mcp.CompleteResult](c, mcp.MethodComplete, raw, false)
	if err != nil {
		return nil, err
	}
	return &result.Completion, nil
}

// NotifyRootsChanged notifies the server of a session that the result of Dialer.Roots has
// changed (2025-11-25, client/roots, Root List Changes). It returns when the notification is
// sent. In 2026-07-28 it does nothing: servers request the roots when they need them.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
func (c *Client) NotifyRootsChanged(ctx context.Context) error {
	l, err := c.connected(ctx)
	if err != nil {
		return err
	}
	defer func() { c.release(l, l.failed() != nil) }()
	if l.revision.Modern() || c.dialer.Roots == nil {
		return nil
	}
	return c.notify(ctx, l, mcp.NotificationRootsListChanged, nil)
}
