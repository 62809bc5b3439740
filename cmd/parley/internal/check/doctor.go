// Package check has the commands that check servers: doctor, diff and test.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/check/doctor"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
)

func NewDoctor() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "doctor [TARGET] [flags]",
		Short: "Find out what is wrong with a server",
		Long: `Examine a server, and print what works, what does not, and what to do about it:

  - a URL: its TLS certificate, what it requires without a token, your login, and
    how it answers wrong headers, revisions, sessions and origins
  - a command: what it writes to standard output, and whether it ends with its input
  - revisions of the protocol, and definitions of tools, prompts and resources

parley doctor calls no tools. Without TARGET, it examines all servers of the configuration files. The exit code is 1
if there is a problem.

` + dialing.TargetHelp,
		Example: `
parley doctor https://example.com/mcp
parley doctor --config mcp.json
parley doctor -- npx -y @modelcontextprotocol/server-everything`,
		RunE: func(cmd *cobra.Command, args []string) error { return examine(cmd, &flags, args) },
	}
	flags.AddUnrecorded(cmd, dialing.TimeoutUsage)
	flags.Limit(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

// examined is a server and the findings about it.
type examined struct {
	Server   string           `json:"server"`
	Findings []doctor.Finding `json:"findings"`
}

// examine examines the server of a command line, or all servers of the configuration files.
func examine(cmd *cobra.Command, flags *dialing.Flags, args []string) error {
	var targets [][]string
	if len(args) == 0 && cmd.ArgsLenAtDash() < 0 {
		loaded, err := flags.Config.Load(cmd)
		if err != nil {
			return err
		}
		for _, s := range loaded.Servers {
			targets = append(targets, []string{s.Name})
		}
		if len(targets) == 0 {
			return errors.New("no TARGET, and no servers in the configuration files; name a URL, or write -- and a " +
				"command")
		}
	} else {
		target, err := dialing.OnlyTarget(cmd, args)
		if err != nil {
			return err
		}
		targets = append(targets, target)
	}
	var all []examined
	counts := make(map[doctor.Level]int)
	var failed error
	table := output.Of(cmd) == output.Table
	for i, target := range targets {
		x := examined{Server: strings.Join(target, " ")}
		if table && len(targets) > 1 {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			fmt.Fprintln(cmd.OutOrStdout(), terminal.Line(x.Server))
		}
		err := examineOne(cmd, flags, target, func(f doctor.Finding) {
			counts[f.Level]++
			x.Findings = append(x.Findings, f)
			if table {
				_ = doctor.Print(cmd.OutOrStdout(), f)
			}
		})
		if cmd.Context().Err() != nil {
			return context.Cause(cmd.Context())
		}
		failed = errors.Join(failed, err)
		all = append(all, x)
	}
	err := output.Print(cmd, all, "\n%s, %s, %s\n", terminal.Count(counts[doctor.Problem], "problem"),
		terminal.Count(counts[doctor.Warning], "warning"), terminal.Count(counts[doctor.Note], "note"))
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failure.Reported(failure.Unreachable(failed))
	case counts[doctor.Problem] > 0:
		return failure.Reported(errors.New("the server has problems"))
	}
	return nil
}

// examineOne examines one server. Its error is that of the connection.
func examineOne(cmd *cobra.Command, flags *dialing.Flags, target []string, report func(doctor.Finding)) error {
	d, to, err := flags.Dialer(cmd, target)
	if err != nil {
		report(doctor.Finding{Check: "configuration", Level: doctor.Problem, Text: failure.Explain(err)})
		return nil
	}
	e := &doctor.Examination{Dialer: *d, Target: to, Report: report, Explain: failure.Explain}
	e.Connect = func(ctx context.Context) (*client.Client, error) {
		await := flags.Await(&e.Dialer, to)
		c, err := e.Dialer.Dial(ctx, to)
		return c, await(err)
	}
	if web, ok := to.(*client.HTTPTarget); ok {
		if stored, err := credstore.Open(); err == nil { // without a home directory there are no logins
			e.Status = func(ctx context.Context) (*oauth.Status, error) {
				c, err := stored.Client(ctx, slog.New(slog.DiscardHandler))
				if err != nil {
					return nil, err
				}
				return c.Status(ctx, web.URL)
			}
		}
	}
	return e.Run(cmd.Context())
}

// diffFlags are the flags of parley diff.
type diffFlags struct {
	dialing.Flags
	revisions []string
	breaking  bool
}

func NewDiff() *cobra.Command {
	var flags diffFlags
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER [flags]",
		Short: "Compare the definitions of two servers",
		Long: `Compare what two servers have, or what one server had before: instructions, capabilities, tools, prompts,
resources and resource templates. BEFORE and AFTER are each a TARGET, or a file with the output of parley ls
-o json. A command after -- is AFTER.

With --revisions, compare one server in two revisions of the protocol.

A change is "breaking" if it is certain that clients of the earlier definition can fail: something is removed,
an argument is required now, or a schema accepts less or promises less. The exit code is 1 if there are
differences; with --breaking, only if one of them is breaking.

` + dialing.TargetHelp,
		Example: `
parley ls -o json https://example.com/mcp >before.json
parley diff before.json https://example.com/mcp
parley diff --breaking before.json -- ./my-server
parley diff --revisions 2025-11-25,2026-07-28 http://127.0.0.1:7777/mcp`,
		RunE: func(cmd *cobra.Command, args []string) error { return diff(cmd, &flags, args) },
	}
	flags.AddUnrecorded(cmd, dialing.TimeoutUsage)
	flags.Limit(cmd)
	cmd.Flags().StringSliceVar(&flags.revisions, "revisions", nil,
		"compare one server in two `revisions`, such as 2025-11-25,2026-07-28")
	cmd.Flags().BoolVar(&flags.breaking, "breaking", false, "print only breaking changes")
	completion.Add(cmd, &flags.Flags, completion.Target)
	return cmd
}

// errDefinitionsDiffer is the error of parley diff if there are differences, which it has printed.
var errDefinitionsDiffer = failure.Reported(errors.New("the definitions differ"))

func diff(cmd *cobra.Command, flags *diffFlags, args []string) error {
	sides, err := flags.sides(cmd, args)
	if err != nil {
		return err
	}
	var definitions [2][]definition
	for i, side := range sides {
		raw, err := side(cmd)
		if err != nil {
			return err
		}
		if definitions[i], err = parseListing(raw); err != nil {
			return err
		}
	}
	changes, err := compareDefinitions(definitions[0], definitions[1])
	if err != nil {
		return err
	}
	if flags.breaking {
		changes = slices.DeleteFunc(changes, func(c change) bool { return c.Breaking == "" })
	}
	if err := output.Print(cmd, changes, "%s", textOf(changes)); err != nil {
		return err
	}
	if len(changes) > 0 {
		return errDefinitionsDiffer
	}
	return nil
}

// sides returns functions that return the two listings to compare, as JSON.
func (f *diffFlags) sides(cmd *cobra.Command, args []string) (sides []func(*cobra.Command) ([]byte, error), err error) {
	server := func(words []string, revision string, isCommand bool) func(*cobra.Command) ([]byte, error) {
		return func(cmd *cobra.Command) ([]byte, error) {
			flags := f.Flags
			flags.Named = !isCommand
			if revision != "" {
				flags.Revision = revision
			}
			return listingOf(cmd, &flags, words)
		}
	}
	named, command := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		named, command = args[:dash], args[dash:]
		if len(command) == 0 {
			return nil, errors.New("no command after --; write the command that starts the server")
		}
	}
	for _, name := range named {
		if !dialing.IsURL(name) && (strings.HasSuffix(name, ".json") || strings.ContainsRune(name, os.PathSeparator)) {
			sides = append(sides, func(*cobra.Command) ([]byte, error) { return os.ReadFile(name) })
			continue
		}
		for _, revision := range f.each() {
			sides = append(sides, server([]string{name}, revision, false))
		}
	}
	if command != nil {
		for _, revision := range f.each() {
			sides = append(sides, server(command, revision, true))
		}
	}
	switch {
	case len(f.revisions) != 0 && len(f.revisions) != 2:
		return nil, errors.New("--revisions must name two revisions, such as 2025-11-25,2026-07-28")
	case len(f.revisions) == 2 && len(sides) != 2:
		return nil, fmt.Errorf("--revisions compares one server; see %s --help", cmd.CommandPath())
	case len(sides) != 2:
		return nil, fmt.Errorf("diff compares two of TARGET and FILE; see %s --help", cmd.CommandPath())
	}
	return sides, nil
}

// each returns the revisions in which to list a server; one empty revision without --revisions.
func (f *diffFlags) each() []string {
	if len(f.revisions) == 0 {
		return []string{""}
	}
	return f.revisions
}

// listingOf returns what parley ls prints about a server as JSON.
func listingOf(cmd *cobra.Command, f *dialing.Flags, words []string) ([]byte, error) {
	c, err := f.Dial(cmd, words)
	if err != nil {
		return nil, err
	}
	defer dialing.Release(cmd, c)
	listed, err := listing.All(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(listing.NewServerListing(c, listed))
}

// textOf describes the changes, grouped by the definitions.
func textOf(changes []change) string {
	var b strings.Builder
	title := ""
	for _, c := range changes {
		if next := strings.TrimSpace(c.Kind + " " + terminal.Line(c.Name)); next != title {
			title = next
			fmt.Fprintln(&b, title)
		}
		place := strings.TrimPrefix(c.Path, "/")
		switch {
		case c.Path == "" && c.After == nil:
			fmt.Fprint(&b, "  removed (breaking)\n")
			continue
		case c.Path == "" && c.Before == nil:
			fmt.Fprint(&b, "  added")
		case c.Before == nil:
			fmt.Fprintf(&b, "  %s added: %s", terminal.Line(place), terminal.Shortened(string(c.After)))
		case c.After == nil:
			fmt.Fprintf(&b, "  %s removed: %s", terminal.Line(place), terminal.Shortened(string(c.Before)))
		default:
			fmt.Fprintf(&b, "  %s: %s → %s", terminal.Line(place), terminal.Shortened(string(c.Before)),
				terminal.Shortened(string(c.After)))
		}
		if c.Breaking != "" {
			fmt.Fprintf(&b, "\n    breaking: %s", terminal.Line(c.Breaking))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
