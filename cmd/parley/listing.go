package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// listing contains the lists of a server.
type listing struct {
	Tools     []*mcp.Tool             `json:"tools"`
	Resources []*mcp.Resource         `json:"resources"`
	Templates []*mcp.ResourceTemplate `json:"resourceTemplates"`
	Prompts   []*mcp.Prompt           `json:"prompts"`
}

// list gets the lists that the server has capabilities for. It returns incomplete lists
// with a *client.IncompleteListError, and no lists with any other error.
func list(ctx context.Context, c *client.Client) (*listing, error) {
	has := c.Server().Capabilities
	l := new(listing)
	var incomplete error
	gotten := func(err error) bool {
		if errors.As(err, new(*client.IncompleteListError)) {
			incomplete, err = errors.Join(incomplete, err), nil
		}
		return err == nil
	}
	var err error
	if l.Tools, err = collect(has.Tools != nil, c.Tools(ctx)); !gotten(err) {
		return nil, err
	}
	if l.Resources, err = collect(has.Resources != nil, c.Resources(ctx)); !gotten(err) {
		return nil, err
	}
	if l.Templates, err = collect(has.Resources != nil, c.ResourceTemplates(ctx)); !gotten(err) {
		return nil, err
	}
	if l.Prompts, err = collect(has.Prompts != nil, c.Prompts(ctx)); !gotten(err) {
		return nil, err
	}
	return l, incomplete
}

// collect returns the elements of a list. It does not iterate unless has is true. A server
// with the resources capability may lack either resources/list or
// resources/templates/list, so an unknown method is an empty list. With an error, collect
// returns the elements that came before it.
func collect[E any](has bool, elements iter.Seq2[*E, error]) ([]*E, error) {
	all := []*E{}
	if !has {
		return all, nil
	}
	for e, err := range elements {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// counts returns the length of each list. It omits empty lists other than the tools.
func (l *listing) counts() string {
	counts := []string{terminal.Count(len(l.Tools), "tool")}
	for _, c := range []struct {
		n    int
		noun string
	}{{len(l.Resources), "resource"}, {len(l.Templates), "template"}, {len(l.Prompts), "prompt"}} {
		if c.n > 0 {
			counts = append(counts, terminal.Count(c.n, c.noun))
		}
	}
	return strings.Join(counts, ", ")
}

// print writes a table for each list that is not empty.
func (l *listing) print(w io.Writer, width int) error {
	var tools, resources, templates, prompts [][]string
	for _, t := range l.Tools {
		tools = append(tools, row(t.Name, toolargs.Summary(t.InputSchema), cmp.Or(t.Description, t.Title)))
	}
	for _, r := range l.Resources {
		resources = append(resources, row(r.URI, r.MimeType, cmp.Or(r.Description, r.Title, r.Name)))
	}
	for _, t := range l.Templates {
		templates = append(templates, row(t.URITemplate, t.MimeType, cmp.Or(t.Description, t.Title, t.Name)))
	}
	for _, p := range l.Prompts {
		prompts = append(prompts, row(p.Name, promptSummary(p), cmp.Or(p.Description, p.Title)))
	}
	separator := ""
	for _, table := range []struct {
		head []string
		rows [][]string
	}{
		{row("TOOL", "ARGUMENTS", "DESCRIPTION"), tools},
		{row("RESOURCE", "TYPE", "DESCRIPTION"), resources},
		{row("TEMPLATE", "TYPE", "DESCRIPTION"), templates},
		{row("PROMPT", "ARGUMENTS", "DESCRIPTION"), prompts},
	} {
		if len(table.rows) == 0 {
			continue
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if err := terminal.Table(w, width, table.head, table.rows); err != nil {
			return err
		}
		separator = "\n"
	}
	return nil
}

// row returns sanitised cells.
func row(cells ...string) []string {
	for i := range cells {
		cells[i] = terminal.Line(cells[i])
	}
	return cells
}
