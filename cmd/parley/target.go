package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/mcp"
)

const targetHelp = `TARGET is a URL, the name of a server or connection (see parley ls), or, at the end of the command line, -- and a
command, which receives few environment variables; see parley help targets.`

// dialFlags are the flags of all commands that connect to one server.
type dialFlags struct {
	config   configFlags
	env      envFlags
	revision string
	timeout  time.Duration
	headers  []string
	trace    bool
	verbose  bool
	record   recordFlags

	unconnected bool // TARGET is not the name of a connection of parley connect
	named       bool // TARGET is a URL or a name, although the command line has a --
	starts      bool // TARGET is a command, although the command line has no --
}

// isCommand reports whether TARGET is a command.
func (f *dialFlags) isCommand(cmd *cobra.Command) bool {
	return f.starts || commandAt(cmd) >= 0 && !f.named
}

// add adds the flags to a command that ends by itself. --timeout limits the whole command.
func (f *dialFlags) add(cmd *cobra.Command) {
	f.addTo(cmd, timeoutUsage)
	f.limit(cmd)
}

const timeoutUsage = "end the command after this `time`, such as 90s"

// limit lets --timeout end a command.
func (f *dialFlags) limit(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.timeout <= 0 { // dial rejects a negative one
			return run(cmd, args)
		}
		expired := &timeoutError{f.timeout}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), f.timeout, expired)
		defer cancel()
		cmd.SetContext(ctx)
		err := run(cmd, args)
		if err != nil && context.Cause(ctx) == expired && !errors.Is(err, expired) {
			return expired
		}
		return err
	}
}

// timeoutError reports that a command did not end in the time of --timeout.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("not finished within --timeout %v", e.limit)
}

// Is reports whether target is context.DeadlineExceeded.
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// addTo adds the flags. timeout describes the flag --timeout.
func (f *dialFlags) addTo(cmd *cobra.Command, timeout string) {
	f.addUnrecorded(cmd, timeout)
	f.record.add(cmd)
}

// addUnrecorded adds the flags except those of recordings, which are of one server.
func (f *dialFlags) addUnrecorded(cmd *cobra.Command, timeout string) {
	flags := cmd.Flags()
	f.config.add(cmd)
	f.env.add(cmd)
	flags.StringVar(&f.revision, "revision", "", "use only this `revision`, such as 2025-11-25")
	_ = cmd.RegisterFlagCompletionFunc("revision", cobra.FixedCompletions(wordsOf(mcp.Revisions()), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	flags.DurationVar(&f.timeout, "timeout", 0, timeout)
	flags.VarP((*repeated)(&f.headers), "header", "H", "HTTP `header`, as 'Name: value' (repeatable)")
	flags.BoolVar(&f.trace, "trace", false, "print every message to stderr")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print log messages, and the stderr of the server")
}

// commandAt returns the index in the arguments at which the command after -- begins, or -1 if there is none. Words
// after -- that begin with - are no command, but names that begin with -. Another -- ends them.
func commandAt(cmd *cobra.Command) int {
	args, dash := cmd.Flags().Args(), cmd.ArgsLenAtDash()
	if dash < 0 || dash == len(args) || !strings.HasPrefix(args[dash], "-") {
		return dash
	}
	if i := slices.Index(args[dash:], "--"); i >= 0 {
		return dash + i + 1
	}
	return -1
}

// split splits the arguments of a command line: TARGET is the first argument, or the command after --.
func split(cmd *cobra.Command, args []string) (target, rest []string, err error) {
	switch at := commandAt(cmd); {
	case shellOf(cmd) != nil:
		return []string{""}, args, nil
	case at >= 0 && at == len(args):
		err = errors.New("no command after --; write the command that starts the server")
	case at > cmd.ArgsLenAtDash():
		return args[at:], args[:at-1], nil
	case at >= 0:
		return args[at:], args[:at], nil
	case len(args) == 0:
		err = fmt.Errorf("no TARGET; name a URL, or write -- and a command; see %s --help", cmd.CommandPath())
	default:
		return args[:1], args[1:], nil
	}
	return nil, nil, err
}

// onlyTarget returns the TARGET of a command that has no other arguments.
func onlyTarget(cmd *cobra.Command, args []string) ([]string, error) {
	target, rest, err := split(cmd, args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q; %s has one TARGET", rest[0], cmd.Name())
	}
	return target, err
}

// dial connects to the target of a command line, which split has returned. Each of settings
// can change the Dialer.
func (f *dialFlags) dial(cmd *cobra.Command, target []string, settings ...func(*client.Dialer, client.Target) error) (*client.Client, error) {
	if s := shellOf(cmd); s != nil {
		return s.dial(cmd, settings)
	}
	d, to, err := f.dialer(cmd, target)
	if err != nil {
		return nil, err
	}
	for _, set := range settings {
		if err := set(d, to); err != nil {
			return nil, err
		}
	}
	c, err := d.Dial(cmd.Context(), to)
	if err != nil {
		return nil, unreachable(err)
	}
	f.use(cmd, target)
	return c, nil
}

// dialer returns the Dialer and the target of a command line.
func (f *dialFlags) dialer(cmd *cobra.Command, target []string) (d *client.Dialer, to client.Target, err error) {
	d = &client.Dialer{
		Name:     "parley",
		Version:  version(),
		Revision: mcp.Revision(f.revision),
		Logger:   newLogger(cmd.ErrOrStderr(), slog.LevelWarn),
	}
	if r := d.Revision; r != "" && !r.Known() {
		return nil, nil, fmt.Errorf("unknown revision %q; parley supports %s", f.revision, commas(mcp.Revisions()))
	}
	if f.timeout < 0 {
		return nil, nil, errors.New("--timeout must not be negative")
	}
	if t := f.timeout; t > 0 {
		if _, limited := cmd.Context().Deadline(); limited {
			t = -1 // the context ends each request
		}
		d.Timeouts = client.Timeouts{Ping: t, Initialize: t, Read: t, Tool: t, Start: t, Max: -1}
	}
	if f.verbose {
		d.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelDebug)
	}
	if f.trace {
		d.Trace = newTracer(cmd.ErrOrStderr()).peer("server")
	}
	if to, err = f.target(cmd, target); err != nil {
		return nil, nil, err
	}
	d.Revision = cmp.Or(d.Revision, f.config.revision)
	if err := f.record.observe(d, to); err != nil {
		return nil, nil, err
	}
	d.Auth, err = authorizerFor(cmd.Context(), to)
	return d, to, err
}

func (f *dialFlags) target(cmd *cobra.Command, words []string) (client.Target, error) {
	header, err := parseHeaders(f.headers)
	if err != nil {
		return nil, err
	}
	var target client.Target
	switch name := words[0]; {
	case f.isCommand(cmd):
		options, err := f.env.command(words)
		if err != nil {
			return nil, err
		}
		target = &client.CommandTarget{CommandOptions: options}
	case isURL(name):
		target = &client.HTTPTarget{URL: name}
	default:
		if len(f.config.paths) == 0 && !f.unconnected {
			if target, err = connectionTarget(cmd.Context(), name); err != nil {
				return nil, err
			}
		}
		if target != nil {
			break
		}
		if target, err = f.config.target(cmd, name); err != nil {
			return nil, err
		}
	}
	if commandAt(cmd) < 0 && !f.starts && f.env.given() {
		return nil, errors.New("--env and --env-all require -- and a command; a server of a configuration file has its variables there")
	}
	if p, ok := target.(*client.CommandTarget); ok && f.timeout > 0 {
		p.ExitGrace = min(f.timeout/10+time.Millisecond, 2*time.Second)
		p.TermGrace = p.ExitGrace
	}
	if len(header) == 0 {
		return target, nil
	}
	t, ok := target.(*client.HTTPTarget)
	if !ok {
		return nil, errors.New("--header requires a server at a URL; pass values to a command in its environment")
	}
	if t.Header == nil {
		t.Header = make(http.Header)
	}
	for name, values := range header {
		t.Header[name] = values
	}
	return t, nil
}

// isName reports whether name could be the name of a server, and no URL or file that the user has written wrongly.
func isName(name string) bool {
	return name != "localhost" && !strings.ContainsAny(name, ":/") && !strings.HasSuffix(name, ".json") && !strings.HasSuffix(name, ".jsonc")
}

// invalidTarget returns the error for a TARGET that is not a URL, without --config.
func invalidTarget(name string) error {
	host, _, _ := strings.Cut(name, "/")
	switch {
	case strings.Contains(name, "://"):
		return fmt.Errorf("unsupported URL %q; use http:// or https://", client.URL(name))
	case strings.HasSuffix(name, ".json"), strings.HasSuffix(name, ".jsonc"):
		return fmt.Errorf("%q is not a server; name the configuration file with --config, and one of its servers", name)
	case host == "localhost", strings.Contains(host, ":"):
		return fmt.Errorf("%q is not a URL; write %s", name, quoting.OfUser().Quote("http://"+name))
	}
	return fmt.Errorf("%q is neither a URL nor the name of a server; write https:// before a host, add the server with parley add, or write -- before a command", name)
}

// parseHeaders parses headers in the notation of curl. Errors do not contain the values,
// which can be secret.
func parseHeaders(lines []string) (http.Header, error) {
	header := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, errors.New("--header must be 'Name: value'")
		}
		header.Add(name, strings.TrimSpace(value))
	}
	return header, nil
}

// release closes the client of a command, unless it is that of a shell.
func release(cmd *cobra.Command, c *client.Client) {
	if shellOf(cmd) == nil {
		closeQuietly(c)
	}
}

// closeQuietly closes a client. It ignores the error, because the user already has the result.
func closeQuietly(c *client.Client) { _ = c.Close() }
