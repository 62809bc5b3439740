package use

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

func NewLs() *cobra.Command {
	var flags dialing.Flags
	var status bool
	cmd := &cobra.Command{
		Use:   "ls [TARGET [NAME]] [flags]",
		Short: "List your servers, or what one of them offers",
		Long: `List the tools, resources, resource templates and prompts of a server. -v also prints its instructions for
models, and -o json and yaml what it supports. With NAME, describe this tool, prompt or resource, and print a command
that uses it; arguments in brackets are optional.

` + serversHelp + dialing.TargetHelp,
		Example: `
parley ls
parley ls --status
parley ls http://127.0.0.1:7777/mcp
parley ls http://127.0.0.1:7777/mcp greet
parley ls --config mcp.json files
parley ls -- uv run server.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if status {
				return errors.New("--status is for parley ls without TARGET")
			}
			target, rest, err := dialing.Split(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 1 {
				return dialing.Unexpected(cmd, target[0], rest[1], "one TARGET and one NAME")
			}
			return ls(cmd, &flags, target, strings.Join(rest, ""))
		},
	}
	flags.Add(cmd)
	cmd.Flags().BoolVar(&status, "status", false, "connect to each server, and print its state")
	ofTarget := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && cmd.ArgsLenAtDash() < 0 {
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
	defer dialing.CloseQuietly(c)
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
		if text := c.Server().Instructions; text != "" && flags.Verbose {
			fmt.Fprintf(cmd.ErrOrStderr(), "\n%s\n\n", terminal.Block(strings.TrimSpace(text)))
		}
		return listed.Print(w, terminal.Width(w))
	})
	return errors.Join(err, incomplete)
}

// title returns one line about the server and its lists.
func title(c *client.Client, listed listing.Listing) string {
	info := c.Server().Info
	name := cmp.Or(info.Title, info.Name)
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
	return printRows(w, width, columns(head, "TYPE", "DEFAULT", "DESCRIPTION"), rows)
}

// printRows writes a table after an empty line, if there are rows.
func printRows(w io.Writer, width int, head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return terminal.Table(w, width, head, rows)
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
	if err := printRows(w, width, []string{"ARGUMENT", "DESCRIPTION"}, rows); err != nil {
		return err
	}
	return printExample(w, command("prompt", words...))
}

// commandLineOf returns a function that returns a command line with the same target, without headers and the values of
// variables, which can be secret.
func commandLineOf(cmd *cobra.Command, f *dialing.Flags, target []string) commandLine {
	return func(verb string, names ...string) string {
		dialect, words := quoting.OfUser(), []string{verb}
		if dialing.CommandAt(cmd) >= 0 {
			return dialect.CommandWith(append(words, f.Env.Words()...), target, names...)
		}
		return dialect.Command(append(words, f.Config.Words()...), append(target[:1:1], names...)...)
	}
}

const statusTimeout = 20 * time.Second // for servers to start and list their definitions

// connectionFlags are the flags of a connection, without effect on the list of servers.
var connectionFlags = []string{"env", "env-all", "header", "no-redact", "record", "revision", "trace", "verbose"}

const serversHelp = `Without TARGET, list your servers with their commands or URLs. --status also connects to each
server and prints its state. … replaces what looks like a secret.

`

// lsServers lists the servers that a TARGET can name.
func lsServers(cmd *cobra.Command, flags *dialing.Flags, status bool) error {
	for _, name := range connectionFlags {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s requires a TARGET; see %s --help", name, cmd.CommandPath())
		}
	}
	files := &flags.Config
	loaded, err := files.Load(cmd)
	if err != nil {
		return err
	}
	all := []*listing.Server{}
	for i := range loaded.Servers {
		all = append(all, listing.NewServer(&loaded.Servers[i]))
	}
	for _, p := range loaded.Problems {
		all = append(all, &listing.Server{Name: p.Name, Kind: "unusable", Problem: p.Err.Error()})
	}
	if status {
		if err := addStatus(cmd, files, loaded, all, cmp.Or(flags.Timeout, statusTimeout)); err != nil {
			return err
		}
	}
	return output.Show(cmd, all, func(w io.Writer) error {
		if len(all) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "No servers. Add one with parley add, or with parley import.")
			return err
		}
		if path := loaded.Path(); path != "" {
			n := len(loaded.Servers) + len(loaded.Problems)
			fmt.Fprintf(cmd.ErrOrStderr(), "%s · %s\n", terminal.Line(path), terminal.Count(n, "server"))
		}
		return printServers(w, all, status, len(files.Files()) > 1)
	})
}

// printServers prints a table of servers, and below it what is wrong with some. If sources is set, a row without an
// origin has the file of the server.
func printServers(w io.Writer, all []*listing.Server, status, sources bool) error {
	var rows [][]string
	var notes strings.Builder
	for _, l := range all {
		row := []string{terminal.Line(l.Name), l.Kind, terminal.Line(l.Origin), terminal.Verbatim(l.Target)}
		if l.Disabled {
			row[1] = "disabled"
		}
		if l.Origin == "" && sources {
			row[2] = terminal.Line(l.Source)
		}
		if s := l.Status; status {
			row[2] = ""
			switch {
			case s == nil:
			case s.Error != "":
				row[1] = s.State
				fmt.Fprintln(&notes, terminal.Line(l.Name+": "+s.Error))
			default:
				row[1], row[2] = s.State, strconv.Itoa(s.Tools)
			}
		}
		if l.Problem != "" {
			fmt.Fprintln(&notes, terminal.Line(l.Problem))
		}
		rows = append(rows, row)
	}
	head := []string{"SERVER", "KIND", "ORIGIN", "TARGET"}
	if status {
		head = []string{"SERVER", "STATE", "TOOLS", "TARGET"}
	}
	return terminal.NotedTable(w, head, rows, notes.String())
}

// addStatus starts the servers and adds their states.
func addStatus(cmd *cobra.Command, files *dialing.ConfigFlags, loaded *config.Config, all []*listing.Server,
	timeout time.Duration) error {
	h, failed, err := dialing.StartServers(cmd, files, loaded, timeout, nil)
	if err != nil {
		return err
	}
	statuses := h.Status()
	_ = h.Close() // a server that does not end well has no effect
	for _, l := range all {
		if err := failed[l.Name]; err != nil {
			l.Status = &listing.ServerStatus{State: host.Down.String(), Error: failure.Explain(err)}
			continue
		}
		at := slices.IndexFunc(statuses, func(s host.ServerStatus) bool { return s.Name == l.Name })
		if at < 0 {
			continue
		}
		s := &statuses[at]
		l.Status = &listing.ServerStatus{State: s.State.String(), Revision: string(s.Revision), Tools: len(s.Tools)}
		switch {
		case s.Err != nil:
			l.Status.Error = failure.Explain(s.Err)
		case s.Incomplete != nil:
			l.Status.Error = failure.Explain(s.Incomplete)
			if s.State == host.Ready {
				l.Status.State = "degraded"
			}
		case s.State != host.Ready:
			l.Status.Error = fmt.Sprintf("not ready within %v", timeout)
		}
	}
	return nil
}
