package calling

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

func NewLs() *cobra.Command {
	var flags dialing.Flags
	var status bool
	cmd := &cobra.Command{
		Use:   "ls [TARGET [NAME]] [flags]",
		Short: "List your servers, or what one of them has",
		Long: `List a server's tools, resources, resource templates and prompts, after its instructions; with -o json or yaml,
also what it supports. NAME is a tool, prompt or resource to describe, with a command that uses it. Arguments in
brackets are optional.

` + serversHelp + dialing.TargetHelp,
		Example: `
parley ls
parley ls --status
parley ls http://127.0.0.1:7777/mcp
parley ls http://127.0.0.1:7777/mcp greet
parley ls --config mcp.json files
parley ls -- npx -y @modelcontextprotocol/server-everything`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if status {
				return errors.New("--status is for parley ls without TARGET")
			}
			target, rest, err := dialing.Split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 1 {
				return fmt.Errorf("unexpected argument %q; ls has one TARGET and one NAME", rest[1])
			}
			return ls(cmd, &flags, target, strings.Join(rest, ""))
		},
	}
	flags.Add(cmd)
	cmd.Flags().BoolVar(&status, "status", false, "connect to each server, and print its state")
	ofTarget := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && cmd.ArgsLenAtDash() < 0 && dialing.ShellOf(cmd) == nil {
			return lsServers(cmd, &flags, status) // --timeout ends the wait for servers, and not the command
		}
		return ofTarget(cmd, args)
	}
	completion.Add(cmd, &flags, completion.Target, completion.Entry, completion.Nothing)
	return cmd
}

// ls prints the lists of a server, or describes the entry with a name unless it is empty.
func ls(cmd *cobra.Command, flags *dialing.Flags, target []string, name string) error {
	c, err := flags.Dial(cmd, target)
	if err != nil {
		return err
	}
	defer dialing.Release(cmd, c)
	listed, incomplete := listing.All(cmd.Context(), c)
	if listed == nil {
		return incomplete
	}
	flags.Remember(cmd, target, c, listed.Names())
	if name != "" {
		item, err := findItem(listed, name)
		if err != nil {
			return errors.Join(err, incomplete)
		}
		return output.Show(cmd, item.Definition, func(w io.Writer) error {
			return printItem(w, terminal.Width(w), item, commandLineOf(cmd, flags, target))
		})
	}
	err = output.Show(cmd, listing.NewServerListing(c, listed), func(w io.Writer) error {
		fmt.Fprintln(cmd.ErrOrStderr(), title(c, listed))
		if text := c.Server().Instructions; text != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "\n%s\n\n", terminal.Block(strings.TrimSpace(text)))
		}
		return listed.Print(w, terminal.Width(w))
	})
	return errors.Join(err, incomplete)
}

// title returns one line about the server and its lists.
func title(c *client.Client, listed listing.Listing) string {
	info := c.Server().Info
	name := info.Title
	if name == "" {
		name = info.Name
	}
	return terminal.Line(fmt.Sprintf("%s %s · MCP %s · %s", name, info.Version, c.Revision(), listed.Counts()))
}

// commandLine returns a command line for the same target.
type commandLine func(verb string, words ...string) string

// findItem returns the tool, prompt, resource or template with a name or URI. Tools come first, because a prompt can
// have the same name.
func findItem(listed listing.Listing, name string) (*listing.Item, error) {
	var names []string
	for _, l := range listing.Lists {
		for _, item := range listed[l.Name] {
			if item.Name == name {
				return item, nil
			}
			names = append(names, item.Name)
		}
	}
	return nil, unknownName("tool", name, names)
}

// printItem writes a definition, and an example that the user can paste.
func printItem(w io.Writer, width int, item *listing.Item, command commandLine) error {
	switch d := item.Definition.(type) {
	case *mcp.Tool:
		return printTool(w, width, d, command)
	case *mcp.Prompt:
		return printPrompt(w, width, d, command)
	}
	err := listing.PrintHead(w, item.Name, item.Title, cmp.Or(item.Description, item.Label), item.Detail)
	if _, isResource := item.Definition.(*mcp.Resource); err != nil || !isResource {
		return err
	}
	return printExample(w, command("read", item.Name))
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
	if err := listing.PrintHead(w, t.Name, title, t.Description, hints(t)); err != nil {
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
			return terminal.Row(name, kind, value, description)
		}
		return terminal.Row(name, kind, description)
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
	if err := listing.PrintHead(w, p.Name, p.Title, p.Description, ""); err != nil {
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
		rows = append(rows, terminal.Row(name, cmp.Or(a.Description, a.Title)))
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

// commandLineOf returns a function that returns a command line with the same target, without headers and the values of
// variables, which can be secret.
func commandLineOf(cmd *cobra.Command, f *dialing.Flags, target []string) commandLine {
	return func(verb string, names ...string) string {
		dialect, words := quoting.OfUser(), []string{verb}
		switch {
		case dialing.ShellOf(cmd) != nil: // the shell of parley knows the target
			_, line, _ := strings.Cut(quoting.Unix.Command(words, names...), " ")
			return line
		case dialing.CommandAt(cmd) >= 0:
			return dialect.CommandWith(append(words, f.Env.Words()...), target, names...)
		}
		return dialect.Command(append(words, f.Config.Words()...), append(target[:1:1], names...)...)
	}
}

// unknownName returns the error for a tool or prompt that the server does not have.
func unknownName(kind, name string, names []string) error {
	advice := fmt.Sprintf("list the server's %ss with parley ls", kind)
	if slices.Contains(names, "search_tools") && slices.Contains(names, "call_tool") { // see --discover of parley up
		advice = "the server does not list all tools: find it with search_tools, and call it with call_tool"
	}
	return nearest.Unknown(kind, name, names, advice)
}
