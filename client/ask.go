package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// handshakeCapabilities are capabilities as sessions know them.
func (d *Dialer) handshakeCapabilities() mcp.ClientCapabilities {
	c := d.capabilities()
	if c.Roots != nil {
		c.Roots.ListChanged = true // see Client.NotifyRootsChanged
	}
	return c
}

// capabilities are what this client offers to servers: what there are functions for.
func (d *Dialer) capabilities() mcp.ClientCapabilities {
	var c mcp.ClientCapabilities
	if d.Elicit != nil || d.ElicitURL != nil {
		c.Elicitation = &mcp.ElicitationCapability{} // as older servers know it: forms
		if d.ElicitURL != nil {
			c.Elicitation.URL = &mcp.Supported{}
			if d.Elicit != nil {
				c.Elicitation.Form = &mcp.Supported{}
			}
		}
	}
	if d.Sample != nil {
		c.Sampling = &mcp.SamplingCapability{}
		if d.SampleTools {
			c.Sampling.Tools = &mcp.Supported{}
		}
	}
	if d.Roots != nil {
		c.Roots = &mcp.RootsCapability{}
	}
	for _, e := range d.Extensions {
		if c.Extensions == nil {
			c.Extensions = make(map[string]json.RawMessage)
		}
		c.Extensions[e.ID], _ = e.settings() // checked by Dial
	}
	return c
}

// answerer answers the questions of servers, in whichever era; nil if there is
// nothing to answer with.
func (d *Dialer) answerer() rpc.Answerer {
	if d.Elicit == nil && d.ElicitURL == nil && d.Sample == nil && d.Roots == nil {
		return nil
	}
	return d.answerContained
}

func (d *Dialer) answer(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch {
	case method == mcp.MethodElicit && (d.Elicit != nil || d.ElicitURL != nil):
		return d.elicit(ctx, params)
	case method == mcp.MethodCreateMessage && d.Sample != nil:
		return d.sample(ctx, params)
	case method == mcp.MethodListRoots && d.Roots != nil:
		roots, err := d.Roots(ctx)
		return &mcp.ListRootsResult{Roots: roots}, err
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q: this client has not declared that it offers it", method)
}

func (d *Dialer) sample(ctx context.Context, params json.RawMessage) (any, error) {
	request := new(mcp.CreateMessageParams)
	if err := decodeParams(params, request); err != nil {
		return nil, err
	}
	if request.UsesTools() && !d.SampleTools {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "sampling/createMessage: this client has not declared that it samples with tools")
	}
	if err := mcp.CheckToolResults(request.Messages); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "sampling/createMessage: %s", err)
	}
	return nonNil(d.Sample(ctx, request))
}

func (d *Dialer) elicit(ctx context.Context, params json.RawMessage) (any, error) {
	request := new(mcp.ElicitParams)
	if err := decodeParams(params, request); err != nil {
		return nil, err
	}
	switch {
	case request.Mode == mcp.ElicitModeURL && d.ElicitURL != nil:
		if _, err := mcp.ParseElicitURL(request.URL); err != nil {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
		}
		return nonNil(d.ElicitURL(ctx, request))
	case (request.Mode == "" || request.Mode == mcp.ElicitModeForm) && d.Elicit != nil:
		return d.fillIn(ctx, request)
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: this client has not declared the mode %.20q", request.Mode)
}

// fillIn has a form filled in, completes it with the form's defaults and makes sure
// that it fits.
func (d *Dialer) fillIn(ctx context.Context, request *mcp.ElicitParams) (any, error) {
	form, err := mcp.ParseElicitSchema(request.RequestedSchema)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	result, err := nonNil(d.Elicit(ctx, request))
	if err != nil || result.Action != mcp.ElicitAccept {
		return result, err
	}
	content, err := withDefaults(form, result.Content)
	if err != nil {
		return nil, fmt.Errorf("the form's content: %w", err)
	}
	fits, err := schema.Compile(request.RequestedSchema)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	if err := fits.Validate(content); err != nil {
		return nil, fmt.Errorf("the form's content does not fit the form: %w", err)
	}
	completed := *result
	completed.Content = content
	return &completed, nil
}

// withDefaults adds the defaults of what was not filled in (2025-11-25,
// client/elicitation, Requested Schema).
func withDefaults(form *mcp.ElicitSchema, content json.RawMessage) (json.RawMessage, error) {
	if content == nil {
		content = json.RawMessage("{}")
	}
	if err := jsonrpc.Check(content, jsonrpc.Limits{}); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	add := func(name string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, name), ':'), value...)
	}
	filled := make(map[string]bool)
	for name, value := range jsonrpc.All(content) {
		filled[name] = true
		add(name, value)
	}
	for _, p := range form.Properties {
		if !filled[p.Name] && p.Schema.Default != nil {
			add(p.Name, p.Schema.Default)
		}
	}
	return append(out, '}'), nil
}

func decodeParams(params json.RawMessage, into any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, into); err != nil {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	return nil
}

// nonNil makes an error of a handler's missing result.
func nonNil[T any](result *T, err error) (*T, error) {
	if err == nil && result == nil {
		err = fmt.Errorf("the handler returned no %T", *new(T))
	}
	return result, err
}
