package traffic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/mock"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/replay"
)

// replayFlags are the flags of parley replay.
type replayFlags struct {
	dial    dialing.Flags // for the TARGET
	ignore  []string
	timeout time.Duration
	pace    bool
	peer    string
	trace   bool
}

func NewReplay() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay RECORDING TARGET [flags]",
		Short: "Send the requests of a recording to a server, and compare the answers",
		Long: `Act as the client of a recording: send its messages to a server in the same order, answer the
server's questions as recorded, and report how the messages of the server differ. The exit code is 1
if there are differences.

Values that only the server understands may differ, such as session ids and cursors. Everything else must be equal,
unless --ignore names it, a JSON Pointer in a message where * means every member. A recording has no credentials;
send them with --header. --peer selects a server of a recording of several. parley help recording says more.

` + dialing.TargetHelp,
		Example: `
parley call http://127.0.0.1:7777/mcp greet name=Ada --record greet.jsonl
parley replay greet.jsonl http://127.0.0.1:7777/mcp
parley replay session.jsonl --ignore /result/content -- ./my-server`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			file := rest
			if cmd.ArgsLenAtDash() < 0 { // RECORDING TARGET
				file, target = target, rest
			}
			if len(file) != 1 || len(target) == 0 || cmd.ArgsLenAtDash() < 0 && len(target) > 1 {
				return errors.New("replay needs a RECORDING and a TARGET; see parley replay --help")
			}
			return replayTo(cmd, &flags, file[0], target)
		}),
	}
	flags.dial.Config.Add(cmd)
	flags.dial.Env.Add(cmd)
	cmd.Flags().VarP((*program.Repeated)(&flags.dial.Headers), "header", "H",
		"HTTP `header`, as 'Name: value' (repeatable)")
	cmd.Flags().Var((*program.Repeated)(&flags.ignore), "ignore",
		"ignore differences at this `path` and below, such as /result/structuredContent/time (repeatable)")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "`time` for each message of the server")
	cmd.Flags().BoolVar(&flags.pace, "pace", false,
		"keep the times between the messages of the client, for servers whose answers depend on time")
	cmd.Flags().StringVar(&flags.peer, "peer", "",
		"`name` of the server whose requests to send, in a recording of several servers")
	cmd.Flags().BoolVar(&flags.trace, "trace", false, "print every message to stderr")
	completion.Add(cmd, &flags.dial.Config, completion.Files, completion.Target)
	return cmd
}

// errDiffers is the error of parley replay if there are differences, which it has printed.
var errDiffers = failure.Reported(errors.New("the server differs from the recording"))

func replayTo(cmd *cobra.Command, flags *replayFlags, path string, words []string) error {
	ignore, err := replay.ParsePaths(flags.ignore)
	if err != nil {
		return fmt.Errorf("--ignore: %w", err)
	}
	if flags.timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	h, entries, err := recording.ReadFile(path)
	if err != nil {
		return err
	}
	recorded, entries, err := recordedBy(flags.peer, h.Target, entries)
	if err != nil {
		return err
	}
	target, err := flags.dial.Target(cmd, words)
	if err != nil {
		return err
	}
	o := replay.Options{Ignore: ignore, Timeout: flags.timeout, Pace: flags.pace}
	if flags.trace {
		o.Trace = recording.NewTracer(cmd.ErrOrStderr()).Peer("server")
	}
	report, err := replayEntries(cmd.Context(), recorded, entries, target, o)
	if errors.Is(err, replay.ErrWire) {
		return err
	}
	if err != nil {
		return failure.Unreachable(err)
	}
	if err := output.Print(cmd, report, "%s", textOf(report)); err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return errDiffers
	}
	return nil
}

// recordedBy returns the traffic with one server of a recording, and its target. Without a name, the recording must
// have one server only.
func recordedBy(peer, target string, entries []recording.Entry) (string, []recording.Entry, error) {
	var names []string
	var found []recording.Entry
	for _, e := range entries {
		if !slices.Contains(names, e.Peer) {
			names = append(names, e.Peer)
		}
		if e.Peer != peer {
			continue
		}
		if target == "" && e.Request != nil {
			target = e.Request.URL
		}
		found = append(found, e)
	}
	if peer == "" && len(names) <= 1 {
		return target, entries, nil
	}
	if len(found) == 0 || peer == "" {
		return "", nil, fmt.Errorf("the recording has the servers %s; choose one with --peer",
			terminal.Line(strings.Join(names, ", ")))
	}
	return target, found, nil
}

func replayEntries(ctx context.Context, recorded string, entries []recording.Entry, target client.Target,
	o replay.Options) (*replay.Report, error) {
	switch t := target.(type) {
	case *client.CommandTarget:
		return replay.ToCommand(ctx, entries, t.CommandOptions, o)
	case *client.HTTPTarget:
		o.Header = t.Header
		return replay.ToURL(ctx, recorded, entries, t.URL, o)
	}
	return nil, fmt.Errorf("cannot replay to %s", target)
}

// textOf describes the differences, and has a summary.
func textOf(report *replay.Report) string {
	var b strings.Builder
	for _, d := range report.Differences {
		fmt.Fprintf(&b, "%s: %s", terminal.Line(d.Subject), d.Problem)
		if d.Line > 0 {
			fmt.Fprintf(&b, " (line %d)", d.Line)
		}
		b.WriteString("\n")
		if d.Message != "" {
			fmt.Fprintf(&b, "    %s\n", terminal.Shortened(d.Message))
		}
		for _, c := range d.Changes {
			fmt.Fprintf(&b, "  %s\n", terminal.Line(c.Path))
			if c.Recorded != "" {
				fmt.Fprintf(&b, "    - %s\n", terminal.Shortened(c.Recorded))
			}
			if c.Replayed != "" {
				fmt.Fprintf(&b, "    + %s\n", terminal.Shortened(c.Replayed))
			}
		}
	}
	fmt.Fprintf(&b, "%s, %s", terminal.Count(report.Requests, "request"),
		terminal.Count(len(report.Differences), "difference"))
	if report.Skipped > 0 {
		fmt.Fprintf(&b, "; skipped %s that cannot be sent to the server", terminal.Count(report.Skipped, "request"))
	}
	b.WriteString("\n")
	return b.String()
}

// mockFlags are the flags of parley mock.
type mockFlags struct {
	http   endpoint.Flags
	schema bool
}

func NewMock() *cobra.Command {
	flags := mockFlags{http: endpoint.Flags{Stdio: true}}
	cmd := &cobra.Command{
		Use:   "mock FILE [flags]",
		Short: "Serve a server that a file describes or that was recorded",
		Long: `Serve a server whose responses are in a file, for tests of clients. Without --addr, it serves
standard input and output. It serves every revision of the protocol, and the same file always has
the same responses.

FILE is a recording (see parley tap), whose responses come with the same progress, log messages, questions and results;
or it is in YAML, with tools, resources and prompts and the responses to each, by the values of arguments. parley help
mock describes it:

  tools:
    - name: forecast
      responses:
        - {when: {city: Atlantis}, text: "There is no ${city}.", isError: true}
        - {latency: 200ms, text: "Sunny in ${city}"}

` + endpoint.Help,
		Example: `
parley mock weather.yaml --addr 127.0.0.1:8080
parley mock session.jsonl
parley ls -- parley mock weather.yaml
parley mock --schema > mock.schema.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 || flags.schema && len(args) == 0 {
				return nil
			}
			return fmt.Errorf("mock needs one FILE; see %s --help", cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.schema {
				_, err := cmd.OutOrStdout().Write(mock.Schema)
				return err
			}
			if err := flags.http.Apply(cmd); err != nil {
				return err
			}
			return serveMock(cmd, &flags, args[0])
		},
	}
	flags.http.Add(cmd)
	cmd.Flags().BoolVar(&flags.schema, "schema", false, "print the JSON Schema of files in YAML, and exit")
	return cmd
}

func serveMock(cmd *cobra.Command, flags *mockFlags, path string) error {
	m, err := mock.Load(path, program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn))
	if err != nil {
		return err
	}
	if flags.http.Addr == "" {
		return flags.http.ServeStreamAlone(cmd.Context(), cmd, m.Server())
	}
	return flags.http.ServeAlone(cmd, m.Server(), func(status *endpoint.Status, _ string, _ bool) {
		status.Print("  %s: %s\n\n", terminal.Line(path), m.Summary())
	})
}
