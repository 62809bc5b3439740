package host

import (
	"context"
	"errors"
	"iter"
	"maps"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// lists are the lists of a server as it sends them.
type lists struct {
	tools      []mcp.Tool
	prompts    []mcp.Prompt
	resources  []mcp.Resource
	templates  []mcp.ResourceTemplate
	incomplete map[client.ChangeKind]error // why a list is incomplete
}

// replaced returns lists with those of the given kinds replaced.
func (l lists) replaced(kinds client.ChangeKind, by *lists) lists {
	incomplete := make(map[client.ChangeKind]error)
	maps.Copy(incomplete, by.incomplete)
	for kind, err := range l.incomplete {
		if kinds&kind == 0 {
			incomplete[kind] = err
		}
	}
	l.incomplete = incomplete
	if kinds&client.ToolsChanged != 0 {
		l.tools = by.tools
	}
	if kinds&client.PromptsChanged != 0 {
		l.prompts = by.prompts
	}
	if kinds&client.ResourcesChanged != 0 {
		l.resources, l.templates = by.resources, by.templates
	}
	return l
}

// allKinds are the kinds of lists that a server can have.
const allKinds = client.ToolsChanged | client.PromptsChanged | client.ResourcesChanged

// list requests the lists of the given kinds for which the server declares a
// capability. The options apply to each request.
func list(ctx context.Context, c *client.Client, kinds client.ChangeKind, options ...client.CallOption) (l lists, err error) {
	options = append(options, client.WithSource())
	has := c.Server().Capabilities
	l.incomplete = make(map[client.ChangeKind]error)
	if kinds&client.ToolsChanged != 0 && has.Tools != nil {
		if l.tools, err = collect(&l, client.ToolsChanged, c.Tools(ctx, options...)); err != nil {
			return l, err
		}
	}
	if kinds&client.ResourcesChanged != 0 && has.Resources != nil {
		if l.resources, err = collect(&l, client.ResourcesChanged, c.Resources(ctx, options...)); err != nil {
			return l, err
		}
		if l.templates, err = collect(&l, client.ResourcesChanged, c.ResourceTemplates(ctx, options...)); err != nil {
			return l, err
		}
	}
	if kinds&client.PromptsChanged != 0 && has.Prompts != nil {
		l.prompts, err = collect(&l, client.PromptsChanged, c.Prompts(ctx, options...))
	}
	return l, err
}

// outdatedError is the reason why a list is incomplete that could not be updated.
type outdatedError struct{ err error }

func (e *outdatedError) Error() string {
	return "cannot update a list, so the previous one is used: " + e.err.Error()
}

func (e *outdatedError) Unwrap() error { return e.err }

// outdated returns the kinds of lists that could not be updated.
func (l *lists) outdated() (kinds client.ChangeKind) {
	for kind, err := range l.incomplete {
		if errors.As(err, new(*outdatedError)) {
			kinds |= kind
		}
	}
	return kinds
}

// collect returns the elements of a list. It returns none if the server does not
// implement the method: a server that declares resources may have no templates, or only
// templates. If a response is invalid or the list has no end, collect returns the
// elements before that and records the error in l.incomplete: a repetition would find
// the same.
func collect[E any](l *lists, kind client.ChangeKind, elements iter.Seq2[*E, error]) (all []E, err error) {
	for e, err := range elements {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			return nil, nil
		case errors.Is(err, call.ErrInvalidResponse):
			l.incomplete[kind] = errors.Join(l.incomplete[kind], err)
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, *e)
	}
	return all, nil
}
