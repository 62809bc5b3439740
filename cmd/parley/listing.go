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

// listing is all that a server offers.
type listing struct {
	Tools     []*mcp.Tool             `json:"tools"`
	Resources []*mcp.Resource         `json:"resources"`
	Templates []*mcp.ResourceTemplate `json:"resourceTemplates"`
	Prompts   []*mcp.Prompt           `json:"prompts"`
}

// list asks a server for what it says it has.
func list(ctx context.Context, c *client.Client) (*listing, error) {
	has := c.Server().Capabilities
	l := new(listing)
	var err error
	if l.Tools, err = collect(has.Tools != nil, c.Tools(ctx)); err != nil {
		return nil, err
	}
	if l.Resources, err = collect(has.Resources != nil, c.Resources(ctx)); err != nil {
		return nil, err
	}
	if l.Templates, err = collect(has.Resources != nil, c.ResourceTemplates(ctx)); err != nil {
		return nil, err
	}
	l.Prompts, err = collect(has.Prompts != nil, c.Prompts(ctx))
	return l, err
}

// collect returns the elements of a list, which is not asked for unless the server has
// it. Servers that have resources need not know of templates, nor the other way round.
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
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// counts says how much there is. A server is asked about its tools first, so these are
// counted even if there are none.
func (l *listing) counts() string {
	counts := []string{count(len(l.Tools), "tool")}
	for _, c := range []struct {
		n    int
		what string
	}{{len(l.Resources), "resource"}, {len(l.Templates), "template"}, {len(l.Prompts), "prompt"}} {
		if c.n > 0 {
			counts = append(counts, count(c.n, c.what))
		}
	}
	return strings.Join(counts, ", ")
}

// print writes a table for each kind of thing that there is.
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
	between := ""
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
		if _, err := io.WriteString(w, between); err != nil {
			return err
		}
		if err := terminal.Table(w, width, table.head, table.rows); err != nil {
			return err
		}
		between = "\n"
	}
	return nil
}

// row makes the cells of a row harmless.
func row(cells ...string) []string {
	for i := range cells {
		cells[i] = terminal.Line(cells[i])
	}
	return cells
}
