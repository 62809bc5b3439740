package calling

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/host"
)

const statusTimeout = 20 * time.Second // for servers to start and list their definitions

const serversHelp = `Without TARGET, list your servers with their commands or URLs, and the connections of parley
connect. --status also starts or connects to each server, and prints its state. … replaces what looks like a secret.

`

// lsServers lists the servers that a TARGET can name.
func lsServers(cmd *cobra.Command, flags *dialing.Flags, status bool) error {
	for _, name := range connectionFlags {
		if cmd.Flags().Changed(name) && name != "config" && name != "input" {
			return fmt.Errorf("--%s requires a TARGET; see %s --help", name, cmd.CommandPath())
		}
	}
	return listServers(cmd, &flags.Config, status, cmp.Or(flags.Timeout, statusTimeout))
}

func listServers(cmd *cobra.Command, files *dialing.ConfigFlags, status bool, timeout time.Duration) error {
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
	if len(files.Paths) == 0 {
		if dir, err := connection.Default(); err == nil { // without a directory there are no connections
			for _, info := range dir.List(cmd.Context()) {
				all = append(all, &listing.Server{
					Name: info.Name, Kind: "connection", Target: info.Target, Connection: info,
					Origin: fmt.Sprintf("process %d, ends after %s without a command", info.PID, info.Idle),
				})
			}
		}
	}
	if status {
		if err := addStatus(cmd, files, loaded, all, timeout); err != nil {
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

// printServers prints a table of servers, and below it what is wrong with some. sources says whether to print the files
// of servers of which it is not known where they are from.
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
			case l.Connection != nil:
				row[1] = s.State
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
	h, failed, err := dialing.StartServers(cmd, files, loaded, timeout)
	if err != nil {
		return err
	}
	statuses := h.Status()
	_ = h.Close() // a server that does not end well has no effect
	for _, l := range all {
		if l.Connection != nil {
			l.Status = &listing.ServerStatus{State: "connected"}
			continue
		}
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
		case !s.State.Usable():
			l.Status.Error = fmt.Sprintf("not ready within %v", timeout)
		}
	}
	return nil
}

func NewSearch() *cobra.Command {
	var files dialing.ConfigFlags
	limit, timeout := 10, statusTimeout
	cmd := &cobra.Command{
		Use:   "search WORDS... [flags]",
		Short: "Search the tools of all your servers",
		Long: `Start or connect to all servers of your configuration, and print the tools whose names, descriptions and
arguments match the words best, each with a command that calls it. A server that cannot be reached is
reported, and the others are searched.`,
		Example: `
parley search weather forecast
parley search --config mcp.json --limit 3 read a file`,
		RunE: func(cmd *cobra.Command, words []string) error {
			switch {
			case len(words) == 0:
				return fmt.Errorf("no WORDS; see %s --help", cmd.CommandPath())
			case limit <= 0:
				return errors.New("--limit must be positive")
			}
			return search(cmd, &files, strings.Join(words, " "), limit, timeout)
		},
	}
	files.Add(cmd)
	cmd.Flags().IntVar(&limit, "limit", limit, "maximum `number` of tools")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "`time` for the servers to start")
	completion.Add(cmd, &files, completion.Nothing)
	return cmd
}

// foundTool is a tool that matches the words.
type foundTool struct {
	Server      string `json:"server"`
	Tool        string `json:"tool"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Example     string `json:"example"` // a command that calls it
}

func search(cmd *cobra.Command, files *dialing.ConfigFlags, query string, limit int, timeout time.Duration) error {
	loaded, err := files.Load(cmd)
	if err != nil {
		return err
	}
	if len(loaded.Servers) == 0 {
		return errors.New("your configuration has no servers; add one with parley add, or with parley import")
	}
	h, failed, err := dialing.StartServers(cmd, files, loaded, timeout)
	if err != nil {
		return err
	}
	for _, p := range loaded.Problems {
		failed[p.Name] = p.Err
	}
	reached := false
	for _, s := range h.Status() {
		reached = reached || s.State.Usable()
		switch {
		case s.Err != nil:
			failed[s.Name] = s.Err
		case !s.State.Usable():
			failed[s.Name] = fmt.Errorf("not ready within %v", timeout)
		}
	}
	found := []*foundTool{}
	for _, t := range h.Search(cmd.Context(), query, limit) {
		d := &t.Definition
		names := append([]string{t.Server, d.Name}, toolargs.Example(d.InputSchema)...)
		line := quoting.OfUser().Command(append([]string{"call"}, files.Words()...), names...)
		found = append(found, &foundTool{t.Server, d.Name, d.Title, d.Description, line})
	}
	_ = h.Close() // a server that does not end well has no effect
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		cmd.PrintErrf("parley: warning: %s: %s\n", terminal.Line(name), terminal.Line(failure.Explain(failed[name])))
	}
	if !reached {
		return failure.Unreachable(errors.New("no server of your configuration can be reached; see parley ls --status"))
	}
	return output.Text(cmd, found, func(b *strings.Builder) {
		if len(found) == 0 {
			cmd.PrintErrln("No tool matches.")
		}
		for i, f := range found {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "%s %s\n", terminal.Line(f.Server), terminal.Line(f.Tool))
			if text, _, _ := strings.Cut(strings.TrimSpace(f.Description), "\n"); text != "" {
				b.WriteString("  " + terminal.Line(text) + "\n")
			}
			fmt.Fprintf(b, "  %s\n", terminal.Verbatim(f.Example))
		}
	})
}
