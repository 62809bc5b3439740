package suite

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// outcome is the outcome of a request.
type outcome struct {
	result   jsontext.Value // or the error of the protocol
	text     string
	names    []string // of the entries of a list, or the values of a completion
	count    int
	failed   bool           // the tool has failed
	rejected *jsonrpc.Error // nil unless the server has reported an error of the protocol
	err      error          // any other error; the rest is then undefined
	took     time.Duration
}

// send sends the request of a test.
func (r *runner) send(ctx context.Context, t *test) *outcome {
	o := new(outcome)
	if t.Call != "" && !r.listed[t.Call] {
		r.listTools(ctx)
	}
	begin := time.Now()
	result, err := o.request(ctx, r.client, t)
	o.took = time.Since(begin)
	switch {
	case err == nil:
		o.result, o.err = schema.Marshal(result)
	case errors.As(err, &o.rejected):
		o.text = o.rejected.Message
		o.result, o.err = schema.Marshal(o.rejected)
	default:
		o.err = err
	}
	return o
}

// request sends the request and sets all but the result and the errors.
func (o *outcome) request(ctx context.Context, c *client.Client, t *test) (result any, err error) {
	unlimited := client.WithTimeout(-1) // the context ends the request
	switch {
	case t.Call != "":
		return o.call(ctx, c, t, unlimited)
	case t.Read != "":
		result, err := c.ReadResource(ctx, t.Read, unlimited, client.WithRefresh())
		if err != nil {
			return nil, err
		}
		var all []string
		for i := range result.Contents {
			all = append(all, result.Contents[i].Text)
		}
		o.text, o.count = strings.Join(all, "\n"), len(all)
		return result, nil
	case t.Prompt != "":
		result, err := c.GetPrompt(ctx, t.Prompt, argumentsOf(t), unlimited)
		if err != nil {
			return nil, err
		}
		var blocks []mcp.Content
		for _, m := range result.Messages {
			blocks = append(blocks, m.Content)
		}
		o.setText(blocks)
		return result, nil
	case t.Complete != nil:
		result, err := c.Complete(ctx, t.Complete.params(), unlimited)
		if err != nil {
			return nil, err
		}
		o.setNames(result.Values)
		return result, nil
	case t.List != "":
		return o.list(ctx, c, t.List, unlimited, client.WithRefresh())
	}
	var params any
	if t.Params != nil {
		params = json.RawMessage(t.Params)
	}
	raw, err := c.CallExtension(ctx, t.Method, params, unlimited)
	o.text = string(raw)
	return raw, err
}

// listTools lists the tools. The client checks the results of listed tools only.
func (r *runner) listTools(ctx context.Context) {
	for tool, err := range r.client.Tools(ctx, client.WithRefresh()) {
		if err != nil {
			return // calls have the error, too, unless the server has only tools/call
		}
		r.listed[tool.Name] = true
	}
}

func (o *outcome) call(ctx context.Context, c *client.Client, t *test, options ...client.CallOption) (*mcp.CallToolResult, error) {
	result, err := c.CallTool(ctx, t.Call, argumentsOf(t), options...)
	if err != nil {
		return nil, err
	}
	o.setText(result.Content)
	o.failed = result.IsError
	return result, nil
}

// argumentsOf returns the arguments of a test, which are not nil.
func argumentsOf(t *test) json.RawMessage {
	if t.Arguments == nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(t.Arguments)
}

func (c *completion) params() mcp.CompleteParams {
	p := mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: c.Prompt}}
	if c.Template != "" {
		p.Ref = mcp.CompleteReference{Type: mcp.RefResource, URI: c.Template}
	}
	p.Argument.Name, p.Argument.Value = c.Argument, c.Value
	if len(c.Given) > 0 {
		p.Context = &mcp.CompleteContext{Arguments: c.Given}
	}
	return p
}

// setText sets the text to that of the blocks, each from a new line.
func (o *outcome) setText(blocks []mcp.Content) {
	var all []string
	for _, block := range blocks {
		switch b := block.(type) {
		case *mcp.TextContent:
			all = append(all, b.Text)
		case *mcp.EmbeddedResource:
			all = append(all, b.Resource.Text)
		}
	}
	o.text, o.count = strings.Join(all, "\n"), len(blocks)
}

func (o *outcome) setNames(names []string) {
	o.names, o.count, o.text = names, len(names), strings.Join(names, "\n")
}

// list returns a list of the server, as a member with the name that it has in the protocol.
func (o *outcome) list(ctx context.Context, c *client.Client, what string, options ...client.CallOption) (any, error) {
	var names []string
	defer func() { o.setNames(names) }()
	switch what {
	case "tools":
		all, err := collect(c.Tools(ctx, options...), &names, func(t *mcp.Tool) string { return t.Name })
		return map[string]any{"tools": all}, err
	case "resources":
		all, err := collect(c.Resources(ctx, options...), &names, func(r *mcp.Resource) string { return r.URI })
		return map[string]any{"resources": all}, err
	case "templates":
		all, err := collect(c.ResourceTemplates(ctx, options...), &names, func(t *mcp.ResourceTemplate) string { return t.URITemplate })
		return map[string]any{"resourceTemplates": all}, err
	}
	all, err := collect(c.Prompts(ctx, options...), &names, func(p *mcp.Prompt) string { return p.Name })
	return map[string]any{"prompts": all}, err
}

// collect returns the elements of a list, and appends their names.
func collect[E any](elements iter.Seq2[*E, error], names *[]string, name func(*E) string) ([]*E, error) {
	all := []*E{}
	for e, err := range elements {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
		*names = append(*names, name(e))
	}
	return all, nil
}
