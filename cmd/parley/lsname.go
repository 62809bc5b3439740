package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

// commandLine returns a command line for the same target.
type commandLine func(verb string, words ...string) string

// find returns the tool, prompt, resource or template with a name or URI. Tools come first, because a prompt can have
// the same name.
func (l *listing) find(name string) (definition any, err error) {
	var names []string
	is := func(other string) bool {
		names = append(names, other)
		return other == name
	}
	for _, t := range l.Tools {
		if is(t.Name) {
			return t, nil
		}
	}
	for _, p := range l.Prompts {
		if is(p.Name) {
			return p, nil
		}
	}
	for _, r := range l.Resources {
		if is(r.URI) {
			return r, nil
		}
	}
	for _, t := range l.Templates {
		if is(t.URITemplate) {
			return t, nil
		}
	}
	return nil, unknownName("tool", name, names)
}

// printDefinition writes a definition that find has returned, and an example that the user can paste.
func printDefinition(w io.Writer, width int, definition any, command commandLine) error {
	switch d := definition.(type) {
	case *mcp.Tool:
		return printTool(w, width, d, command)
	case *mcp.Prompt:
		return printPrompt(w, width, d, command)
	case *mcp.Resource:
		if err := printHead(w, d.URI, d.Title, cmp.Or(d.Description, d.Name), d.MimeType); err != nil {
			return err
		}
		return printExample(w, command("read", d.URI))
	case *mcp.ResourceTemplate:
		return printHead(w, d.URITemplate, d.Title, cmp.Or(d.Description, d.Name), d.MimeType)
	}
	return nil
}

// printHead writes the name, the title, the description and a line below it.
func printHead(w io.Writer, name, title, description, line string) error {
	head := terminal.Line(name)
	if title != "" && title != name {
		head += " · " + terminal.Line(title)
	}
	var b strings.Builder
	b.WriteString(head + "\n")
	if description != "" {
		b.WriteString("\n" + terminal.Block(strings.TrimSpace(description)) + "\n")
	}
	if line != "" {
		b.WriteString("\n" + terminal.Line(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printExample(w io.Writer, command string) error {
	_, err := fmt.Fprintf(w, "\nExample:\n\n  %s\n", terminal.Verbatim(command))
	return err
}

func printTool(w io.Writer, width int, t *mcp.Tool, command commandLine) error {
	title := t.Title
	if title == "" && t.Annotations != nil {
		title = t.Annotations.Title
	}
	if err := printHead(w, t.Name, title, t.Description, hints(t)); err != nil {
		return err
	}
	if err := printProperties(w, width, "ARGUMENT", t.InputSchema); err != nil {
		return err
	}
	if err := printProperties(w, width, "RESULT", t.OutputSchema); err != nil {
		return err
	}
	return printExample(w, command("call", append([]string{t.Name}, toolargs.Example(t.InputSchema)...)...))
}

// printProperties writes a table of the properties of a schema, if there are any.
func printProperties(w io.Writer, width int, head string, schema json.RawMessage) error {
	properties := toolargs.Arguments(schema)
	if len(properties) == 0 {
		return nil
	}
	hasDefaults := slices.ContainsFunc(properties, func(a toolargs.Argument) bool { return a.Default != "" })
	columns := func(name, kind, value, description string) []string {
		if hasDefaults {
			return row(name, kind, value, description)
		}
		return row(name, kind, description)
	}
	var rows [][]string
	for _, a := range properties {
		name := a.Name
		if !a.Required {
			name = "[" + name + "]"
		}
		rows = append(rows, columns(name, strings.TrimSpace(a.Type+" "+a.Range), a.Default, a.Description))
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return terminal.Table(w, width, columns(head, "TYPE", "DEFAULT", "DESCRIPTION"), rows)
}

// hints returns what the server says about the effects of a tool. It may be wrong.
func hints(t *mcp.Tool) string {
	a := t.Annotations
	if a == nil {
		return ""
	}
	var words []string
	switch {
	case a.ReadOnlyHint:
		words = append(words, "changes nothing")
	case a.DestructiveHint != nil && !*a.DestructiveHint:
		words = append(words, "deletes and overwrites nothing")
	case a.DestructiveHint != nil:
		words = append(words, "can delete or overwrite data")
	}
	if a.IdempotentHint && !a.ReadOnlyHint {
		words = append(words, "can be repeated without further effect")
	}
	switch {
	case a.OpenWorldHint == nil:
	case *a.OpenWorldHint:
		words = append(words, "uses external systems")
	default:
		words = append(words, "uses no external systems")
	}
	if len(words) == 0 {
		return ""
	}
	return "According to the server, the tool " + strings.Join(words, " and ") + "."
}

func printPrompt(w io.Writer, width int, p *mcp.Prompt, command commandLine) error {
	if err := printHead(w, p.Name, p.Title, p.Description, ""); err != nil {
		return err
	}
	var rows [][]string
	words := []string{p.Name}
	for _, a := range p.Arguments {
		name := a.Name
		if a.Required {
			words = append(words, a.Name+"=text")
		} else {
			name = "[" + name + "]"
		}
		rows = append(rows, row(name, cmp.Or(a.Description, a.Title)))
	}
	if len(rows) > 0 {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := terminal.Table(w, width, []string{"ARGUMENT", "DESCRIPTION"}, rows); err != nil {
			return err
		}
	}
	return printExample(w, command("prompt", words...))
}

// command returns a function that returns a command line with the same target, without headers and the values of
// variables, which can be secret.
func (f *dialFlags) command(cmd *cobra.Command, target []string) commandLine {
	return func(verb string, names ...string) string {
		dialect, words := quoting.OfUser(), []string{verb}
		switch {
		case shellOf(cmd) != nil: // the shell of parley knows the target
			_, line, _ := strings.Cut(quoting.Unix.Command(words, names...), " ")
			return line
		case commandAt(cmd) >= 0:
			return dialect.CommandWith(append(words, f.env.words()...), target, names...)
		}
		return dialect.Command(append(words, f.config.words()...), append(target[:1:1], names...)...)
	}
}
