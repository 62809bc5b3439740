package calling

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
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
	h, failed, err := dialing.StartServers(cmd, files, loaded, timeout, nil)
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
