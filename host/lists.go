package host

import (
	"context"
	"errors"
	"iter"
	"maps"

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

// merged are the lists of a server with the names that the Host gives them.
type merged struct {
	tools     []MergedTool
	prompts   []MergedPrompt
	resources []mcp.Resource
	templates []mcp.ResourceTemplate

	incomplete map[client.ChangeKind]error // of lists, and the entries that have the name of another one
	withheld   withheld                    // the definitions that Host.Review does not accept
}

// merge reviews and names the entries of lists.
func (s *supervisor) merge(l *lists) *merged {
	accepted := *l
	m := &merged{resources: l.resources, templates: l.templates, incomplete: maps.Clone(l.incomplete), withheld: s.reviewLists(&accepted)}
	var same error
	if m.tools, same = s.mergedTools(accepted.tools); same != nil {
		m.incomplete[client.ToolsChanged] = errors.Join(m.incomplete[client.ToolsChanged], same)
	}
	if m.prompts, same = s.mergedPrompts(accepted.prompts); same != nil {
		m.incomplete[client.PromptsChanged] = errors.Join(m.incomplete[client.PromptsChanged], same)
	}
	return m
}

// allKinds are the kinds of lists that a server can have.
const allKinds = client.ToolsChanged | client.PromptsChanged | client.ResourcesChanged

// list requests the lists of the given kinds for which the server declares a
// capability.
func list(ctx context.Context, c *client.Client, kinds client.ChangeKind) (l lists, err error) {
	has := c.Server().Capabilities
	l.incomplete = make(map[client.ChangeKind]error)
	if kinds&client.ToolsChanged != 0 && has.Tools != nil {
		if l.tools, err = collect(&l, client.ToolsChanged, c.Tools(ctx, client.WithRefresh(), client.WithSource())); err != nil {
			return l, err
		}
	}
	if kinds&client.ResourcesChanged != 0 && has.Resources != nil {
		if l.resources, err = collect(&l, client.ResourcesChanged, c.Resources(ctx, client.WithRefresh(), client.WithSource())); err != nil {
			return l, err
		}
		if l.templates, err = collect(&l, client.ResourcesChanged, c.ResourceTemplates(ctx, client.WithRefresh(), client.WithSource())); err != nil {
			return l, err
		}
	}
	if kinds&client.PromptsChanged != 0 && has.Prompts != nil {
		l.prompts, err = collect(&l, client.PromptsChanged, c.Prompts(ctx, client.WithRefresh(), client.WithSource()))
	}
	return l, err
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
		case errors.Is(err, client.ErrInvalidResponse):
			l.incomplete[kind] = errors.Join(l.incomplete[kind], err)
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, *e)
	}
	return all, nil
}

// allIncomplete returns ServerStatus.Incomplete. It requires that mu is held.
func (s *supervisor) allIncomplete() error {
	return errors.Join(s.incomplete[client.ToolsChanged], s.incomplete[client.ResourcesChanged], s.incomplete[client.PromptsChanged], s.withheld.error())
}
