package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
)

const statusTimeout = 20 * time.Second // for servers to start and list their definitions

const serversHelp = `Without TARGET, list your servers with their commands or URLs, and the connections of parley connect. --status also
starts or connects to each server, and prints its state. … replaces what looks like a secret.

`

// lsServers lists the servers that a TARGET can name.
func lsServers(cmd *cobra.Command, flags *dialFlags, status bool) error {
	for _, name := range connectionFlags {
		if cmd.Flags().Changed(name) && name != "config" && name != "input" {
			return fmt.Errorf("--%s requires a TARGET; see %s --help", name, cmd.CommandPath())
		}
	}
	return listServers(cmd, &flags.config, status, cmp.Or(flags.timeout, statusTimeout))
}

// listedServer is a server that a TARGET can name.
type listedServer struct {
	Name     string        `json:"name"`
	Kind     string        `json:"kind"` // command, http or connection
	Target   string        `json:"target"`
	Origin   string        `json:"origin,omitempty"` // where it is from
	Source   string        `json:"source,omitempty"` // the file and line
	Disabled bool          `json:"disabled,omitzero"`
	Problem  string        `json:"problem,omitempty"` // why the entry cannot be used
	Status   *listedStatus `json:"status,omitempty"`

	Connection *connection.Info `json:"connection,omitempty"`
}

// listedStatus is the state of a server.
type listedStatus struct {
	State    string `json:"state"`
	Error    string `json:"error,omitempty"`
	Revision string `json:"revision,omitempty"`
	Tools    int    `json:"tools"`
}

func newListedServer(s *config.Server) *listedServer {
	l := &listedServer{Name: s.Name, Kind: "http", Target: withoutSecrets(s.URL), Origin: s.Origin, Source: s.Source, Disabled: s.Disabled}
	if s.Command != "" {
		l.Kind, l.Target = "command", shownCommand(s.Command, s.Args)
	}
	return l
}

// shownCommand is commandText with … instead of what looks like a secret.
func shownCommand(name string, args []string) string { return commandText(name, config.Masked(args)) }

// commandText returns a command as the user would type it.
func commandText(name string, args []string) string {
	words := append([]string{name}, args...)
	for i, word := range words {
		if word != "…" {
			words[i] = quoting.OfUser().Quote(word)
		}
	}
	return strings.Join(words, " ")
}

func listServers(cmd *cobra.Command, files *configFlags, status bool, timeout time.Duration) error {
	loaded, err := files.load(cmd)
	if err != nil {
		return err
	}
	all := []*listedServer{}
	for i := range loaded.Servers {
		all = append(all, newListedServer(&loaded.Servers[i]))
	}
	for _, p := range loaded.Problems {
		all = append(all, &listedServer{Name: p.Name, Kind: "unusable", Problem: p.Err.Error()})
	}
	if len(files.paths) == 0 {
		if dir, err := connection.Default(); err == nil { // without a directory there are no connections
			for _, info := range dir.List(cmd.Context()) {
				all = append(all, &listedServer{
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
	return show(cmd, all, func(w io.Writer) error {
		if len(all) == 0 {
			_, err := fmt.Fprintln(cmd.ErrOrStderr(), "No servers. Add one with parley add, or with parley import.")
			return err
		}
		if path := loaded.Path(); path != "" {
			n := len(loaded.Servers) + len(loaded.Problems)
			fmt.Fprintf(cmd.ErrOrStderr(), "%s · %s\n", terminal.Line(path), terminal.Count(n, "server"))
		}
		return printServers(w, all, status, len(files.files()) > 1)
	})
}

// printServers prints a table of servers, and below it what is wrong with some. sources says whether to print the files
// of servers of which it is not known where they are from.
func printServers(w io.Writer, all []*listedServer, status, sources bool) error {
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
	return printNoted(w, head, rows, notes.String())
}

// printNoted prints a table without the columns that are empty, and notes about its rows.
func printNoted(w io.Writer, head []string, rows [][]string, notes string) error {
	for i := len(head) - 1; i >= 0; i-- {
		if slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			continue
		}
		head = slices.Delete(head, i, i+1)
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
	}
	if err := terminal.WrappedTable(w, terminal.Width(w), head, rows); err != nil || notes == "" {
		return err
	}
	_, err := fmt.Fprint(w, "\n", notes)
	return err
}

// addStatus starts the servers and adds their states.
func addStatus(cmd *cobra.Command, files *configFlags, loaded *config.Config, all []*listedServer, timeout time.Duration) error {
	h, failed, err := startServers(cmd, files, loaded, timeout)
	if err != nil {
		return err
	}
	statuses := h.Status()
	_ = h.Close() // a server that does not end well has no effect
	for _, l := range all {
		if l.Connection != nil {
			l.Status = &listedStatus{State: "connected"}
			continue
		}
		if err := failed[l.Name]; err != nil {
			l.Status = &listedStatus{State: host.Down.String(), Error: explain(err)}
			continue
		}
		at := slices.IndexFunc(statuses, func(s host.ServerStatus) bool { return s.Name == l.Name })
		if at < 0 {
			continue
		}
		s := &statuses[at]
		l.Status = &listedStatus{State: s.State.String(), Revision: string(s.Revision), Tools: len(s.Tools)}
		switch {
		case s.Err != nil:
			l.Status.Error = explain(s.Err)
		case s.Incomplete != nil:
			l.Status.Error = explain(s.Incomplete)
		case !s.State.Usable():
			l.Status.Error = fmt.Sprintf("not ready within %v", timeout)
		}
	}
	return nil
}

// startServers starts the enabled servers of files, and waits until each is ready or has failed. The caller closes the
// host. failed has the errors of servers that cannot be started, for example because a variable is missing.
func startServers(cmd *cobra.Command, files *configFlags, loaded *config.Config, timeout time.Duration) (h *host.Host, failed map[string]error, err error) {
	if timeout <= 0 {
		return nil, nil, errors.New("--timeout must be positive")
	}
	values, err := files.values(cmd)
	if err != nil {
		return nil, nil, err
	}
	failed = make(map[string]error)
	var servers []host.ServerConfig
	var targets []client.Target
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if s.Disabled {
			continue
		}
		target, err := s.Target(values)
		if cancelled := new(codeError); errors.As(err, &cancelled) { // the user has cancelled the question for an input
			return nil, nil, err
		}
		if err != nil {
			failed[s.Name] = err
			continue
		}
		settings := s.Settings()
		settings.Target, settings.Lazy, settings.Idle = target, false, 0
		servers, targets = append(servers, *settings), append(targets, target)
	}
	auth := new(authorizer)
	if err := auth.setTargets(cmd.Context(), targets...); err != nil {
		return nil, nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	h = &host.Host{
		Servers: servers, Logger: quiet,
		Dialer: client.Dialer{Name: "parley", Version: version(), Auth: auth, Logger: quiet},
	}
	if err := h.Start(); err != nil {
		return nil, nil, err
	}
	waitReady(cmd, h, timeout)
	if ctx := cmd.Context(); ctx.Err() != nil {
		return nil, nil, errors.Join(context.Cause(ctx), h.Close())
	}
	return h, failed, nil
}

// waitReady waits until no server is starting, but not longer than timeout. At a terminal it shows for which servers it
// waits. The status of the servers has the errors.
func waitReady(cmd *cobra.Command, h *host.Host, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	all := h.Status()
	if len(all) == 0 || !terminal.Is(cmd.ErrOrStderr()) {
		_ = h.WaitReady(ctx)
		return
	}
	progress := terminal.NewProgress(cmd.ErrOrStderr(), "")
	defer progress.Done()
	for range h.Watch(ctx) {
		var starting []string
		for _, s := range h.Status() {
			if s.State == host.Starting {
				starting = append(starting, s.Name)
			}
		}
		if len(starting) == 0 {
			return
		}
		progress.Set(float64(len(all)-len(starting)), float64(len(all)), "waiting for "+strings.Join(starting, ", "))
	}
}
