package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/internal/forms"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// sessionCapabilities returns the capabilities that the client declares in the handshake of
// a session.
func (d *Dialer) sessionCapabilities() mcp.ClientCapabilities {
	c := d.capabilities()
	if c.Roots != nil {
		c.Roots.ListChanged = true // see Client.NotifyRootsChanged
	}
	if !d.NoTasks && (c.Elicitation != nil || c.Sampling != nil) {
		c.Tasks = &mcp.TasksCapability{List: &mcp.Supported{}, Cancel: &mcp.Supported{},
			Requests: &mcp.TaskRequestsCapability{}}
		if c.Elicitation != nil {
			c.Tasks.Requests.Elicitation = &mcp.TaskElicitationCapability{Create: &mcp.Supported{}}
		}
		if c.Sampling != nil {
			c.Tasks.Requests.Sampling = &mcp.TaskSamplingCapability{CreateMessage: &mcp.Supported{}}
		}
	}
	return c
}

// capabilities returns the capabilities that the client declares: one for each function that
// is set in the Dialer, and the extensions.
func (d *Dialer) capabilities() mcp.ClientCapabilities {
	var c mcp.ClientCapabilities
	if d.Elicit != nil || d.ElicitURL != nil {
		c.Elicitation = &mcp.ElicitationCapability{} // servers before 2025-11-25 take this to mean forms
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
	if d.waitsForTasks() {
		c.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")}
	}
	for _, e := range d.Extensions {
		if c.Extensions == nil {
			c.Extensions = make(map[string]json.RawMessage)
		}
		c.Extensions[e.ID], _ = e.settings() // Dial has checked for errors
	}
	return c
}

// waitsForTasks reports whether calls wait for the tasks of the extension.
func (d *Dialer) waitsForTasks() bool {
	return !d.NoTasks && !slices.ContainsFunc(d.Extensions,
		func(e Extension) bool { return e.ID == mcp.ExtensionTasks })
}

// answerer returns the function that answers input requests, or nil if the Dialer answers none.
func (d *Dialer) answerer() rpc.InputHandler {
	if d.Elicit == nil && d.ElicitURL == nil && d.Sample == nil && d.Roots == nil {
		return nil
	}
	return d.answerContained
}

// answer answers one input request. The error is a *jsonrpc.Error if the server was not
// allowed to send the request.
func (d *Dialer) answer(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch {
	case method == mcp.MethodElicit && (d.Elicit != nil || d.ElicitURL != nil):
		return d.elicit(ctx, params)
	case method == mcp.MethodCreateMessage && d.Sample != nil:
		return d.sample(ctx, params)
	case method == mcp.MethodListRoots && d.Roots != nil:
		return d.listRoots(ctx)
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q: the client has not declared this capability",
		method)
}

// listRoots returns the roots of the program.
func (d *Dialer) listRoots(ctx context.Context) (any, error) {
	roots, err := d.Roots(ctx)
	if err == nil {
		if err := rpc.CheckRoots(roots); err != nil {
			return nil, fmt.Errorf("Dialer.Roots: %w", err)
		}
	}
	return nonNil(&mcp.ListRootsResult{Roots: roots}, err)
}

func (d *Dialer) sample(ctx context.Context, params json.RawMessage) (any, error) {
	request := new(mcp.CreateMessageParams)
	if err := decodeParams(params, request); err != nil {
		return nil, err
	}
	if request.UsesTools() && !d.SampleTools {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
			"sampling/createMessage: the client has not declared the capability sampling.tools")
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
		return d.elicitForm(ctx, request)
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
		"elicitation/create: the client has not declared the mode %.20q", request.Mode)
}

// elicitForm calls Elicit, adds the defaults of the form to its answer and validates it.
func (d *Dialer) elicitForm(ctx context.Context, request *mcp.ElicitParams) (any, error) {
	form, err := forms.Parse(request.RequestedSchema)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "elicitation/create: %s", err)
	}
	result, err := nonNil(d.Elicit(ctx, request))
	if err != nil || result.Action != mcp.ElicitAccept {
		return result, err
	}
	completed := *result
	if completed.Content, err = form.Complete(result.Content); err != nil {
		return nil, err
	}
	return &completed, nil
}

func decodeParams(params json.RawMessage, into any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := schema.Decode(params, into); err != nil {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
	}
	return nil
}

// nonNil returns an error if a function of the Dialer returned neither a result nor an error. A function may return a
// *jsonrpc.Error for the server; nonNil wraps it, so that the caller does not take it for an error from the server. In
// 2026-07-28, where an answer cannot be an error, the caller receives its text.
func nonNil[T any](result *T, err error) (*T, error) {
	if err == nil && result == nil {
		err = fmt.Errorf("the function of the Dialer returned no %T", *new(T))
	}
	var wire *jsonrpc.Error
	if rejected := new(rpc.RejectedInputError); !errors.As(err, &rejected) && errors.As(err, &wire) {
		err = &rpc.RejectedInputError{Wire: wire, Err: errors.New(wire.Message)}
	}
	return result, err
}
