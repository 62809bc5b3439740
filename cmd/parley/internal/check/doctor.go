// Package check implements the commands that check servers: doctor and test.
package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
)

func NewDoctor() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "doctor [TARGET] [flags]",
		Short: "Find out what is wrong with a server",
		Long: `Examine a server, and print what works, what does not, and what to do about it:

  - a URL: its TLS certificate, whether it requires a login, your login, and
    how it handles web pages of other origins and sessions that it does not know
  - a command: what it writes to standard output, and whether it exits when its
    input ends; parley starts it several times
  - revisions of the protocol, and definitions of tools, prompts and resources

parley doctor calls no tools. Without TARGET, it examines all servers of the configuration files. The exit code is 1
if there is a problem.

` + dialing.TargetHelp,
		Example: `
parley doctor https://example.com/mcp
parley doctor --config mcp.json
parley doctor -- uv run server.py`,
		RunE: func(cmd *cobra.Command, args []string) error { return examine(cmd, &flags, args) },
	}
	flags.AddUnrecorded(cmd, "end the command after this `time`, such as 5m")
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

// examineOne examines one server. It returns an error if it cannot connect.
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
