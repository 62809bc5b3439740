// Package dialing connects commands to the server that TARGET names: a URL, a server of the configuration files, or a
// command. It defines the flags for that.
package dialing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/mcp"
)

// TargetHelp describes TARGET in the help of a command.
const TargetHelp = targetHelp + `It gets few environment variables; --env passes more.`

// TargetHelpInherit is TargetHelp for a command that passes all environment variables.
const TargetHelpInherit = targetHelp + `It gets all environment variables of parley.`

const targetHelp = `TARGET is a URL or the name of a server (parley ls). To start a server, omit TARGET and end the line
with -- and a command, such as -- uv run server.py. `

// Flags are the flags of all commands that connect to one server.
type Flags struct {
	Config   ConfigFlags
	Env      EnvFlags
	Revision string
	Timeout  time.Duration
	Headers  []string
	Trace    bool
	Verbose  bool
	record   recording.Flags
	progress *terminal.Progress // of stderr if it is a terminal; see stderr

	Named  bool // TARGET is a URL or a name, although the command line has a --
	Starts bool // TARGET is a command, although the command line has no --
}

// isCommand reports whether TARGET is a command.
func (f *Flags) isCommand(cmd *cobra.Command) bool {
	return f.Starts || CommandAt(cmd) >= 0 && !f.Named
}

// Add adds the flags to a command that ends by itself. --timeout limits the whole command.
func (f *Flags) Add(cmd *cobra.Command) {
	f.AddTo(cmd, TimeoutUsage)
	f.Limit(cmd)
}

// TimeoutUsage describes --timeout. The defaults are those of client.Timeouts.
const TimeoutUsage = "end the command after this `time`, such as 5m (default: 60s for a tool, 30s otherwise)"

// Limit lets --timeout end a command.
func (f *Flags) Limit(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.Timeout <= 0 { // dial rejects a negative one
			return run(cmd, args)
		}
		expired := ExpiredAfter(f.Timeout)
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), f.Timeout, expired)
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

// ExpiredAfter returns the error of a command that --timeout ends.
func ExpiredAfter(limit time.Duration) error { return &timeoutError{limit} }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("not finished within --timeout %v", e.limit)
}

// Is reports whether target is context.DeadlineExceeded.
func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// AddTo adds the flags. timeout describes the flag --timeout.
func (f *Flags) AddTo(cmd *cobra.Command, timeout string) {
	f.AddUnrecorded(cmd, timeout)
	f.record.Add(cmd)
}

// AddUnrecorded adds the flags without the ones for recordings, which record one server.
func (f *Flags) AddUnrecorded(cmd *cobra.Command, timeout string) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if f.Timeout == 0 {
			err = failure.WithTimeoutFlag(err)
		}
		return err
	}
	flags := cmd.Flags()
	f.Config.Add(cmd)
	f.Env.Add(cmd)
	flags.StringVar(&f.Revision, "revision", "", "use only this `revision`, such as 2025-11-25")
	program.CompleteFlag(cmd, "revision", mcp.Revisions())
	flags.DurationVar(&f.Timeout, "timeout", 0, timeout)
	flags.VarP((*program.Repeated)(&f.Headers), "header", "H", "HTTP `header`, as 'Name: value' (repeatable)")
	flags.BoolVar(&f.Trace, "trace", false, "print every message to stderr")
	flags.BoolVarP(&f.Verbose, "verbose", "v", false, "print log messages, and the stderr of the server")
}

// CommandAt returns the index in the arguments at which the command after -- begins, or -1 if there is none. Words
// after -- that begin with - are no command, but names that begin with -. Another -- ends them.
func CommandAt(cmd *cobra.Command) int {
	args, dash := cmd.Flags().Args(), cmd.ArgsLenAtDash()
	if dash < 0 || dash == len(args) || !strings.HasPrefix(args[dash], "-") {
		return dash
	}
	if i := slices.Index(args[dash:], "--"); i >= 0 {
		return dash + i + 1
	}
	return -1
}

// Split splits the arguments of a command line: TARGET is the first argument, or the command after --.
func Split(cmd *cobra.Command, args []string) (target, rest []string, err error) {
	switch at := CommandAt(cmd); {
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

// WithWords returns the function of a command that has arguments beside TARGET; run receives both.
func WithWords(run func(cmd *cobra.Command, target, rest []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		target, rest, err := Split(cmd, args)
		if err != nil {
			return err
		}
		return run(cmd, target, rest)
	}
}

// WithTarget returns the function of a command that has no argument but TARGET, which run receives.
func WithTarget(run func(cmd *cobra.Command, target []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		target, err := OnlyTarget(cmd, args)
		if err != nil {
			return err
		}
		return run(cmd, target)
	}
}

// OnlyTarget returns the TARGET of a command that has no other arguments.
func OnlyTarget(cmd *cobra.Command, args []string) ([]string, error) {
	target, rest, err := Split(cmd, args)
	if err == nil && len(rest) > 0 {
		err = Unexpected(cmd, target[0], rest[0], "one TARGET")
	}
	return target, err
}

// Unexpected returns the error for a word after TARGET and the other arguments that a command has.
func Unexpected(cmd *cobra.Command, target, word, has string) error {
	if advice := CommandAdvice(cmd, target); advice != "" && CommandAt(cmd) < 0 {
		return fmt.Errorf("unexpected argument %q; %s", word, advice)
	}
	return fmt.Errorf("unexpected argument %q; %s takes %s", word, cmd.Name(), has)
}

// Dial connects to the target of a command line, which split has returned. Each of settings can change the Dialer.
func (f *Flags) Dial(cmd *cobra.Command, target []string,
	settings ...func(*client.Dialer, client.Target) error) (*client.Client, error) {
	d, to, err := f.Dialer(cmd, target)
	if err != nil {
		return nil, err
	}
	for _, set := range settings {
		if err := set(d, to); err != nil {
			return nil, err
		}
	}
	await := f.Await(d, to)
	c, err := d.Dial(cmd.Context(), to)
	if err = await(err); err != nil {
		return nil, failure.Unreachable(err)
	}
	f.use(cmd, target)
	return c, nil
}

// Dialer returns the Dialer and the target of a command line.
func (f *Flags) Dialer(cmd *cobra.Command, target []string) (d *client.Dialer, to client.Target, err error) {
	d = &client.Dialer{
		Name:     "parley",
		Version:  program.Version(),
		Revision: mcp.Revision(f.Revision),
		Logger:   program.NewLogger(f.stderr(cmd), slog.LevelWarn),
	}
	if r := d.Revision; r != "" && !r.Known() {
		return nil, nil, fmt.Errorf("unknown revision %q; parley supports %s", f.Revision,
			program.Commas(mcp.Revisions()))
	}
	if f.Timeout < 0 {
		return nil, nil, errors.New("--timeout must not be negative")
	}
	if t := f.Timeout; t > 0 {
		if _, limited := cmd.Context().Deadline(); limited {
			t = -1 // the context ends each request
		}
		d.Timeouts = client.Timeouts{Ping: t, Initialize: t, Read: t, Tool: t, Start: t, Max: -1}
	}
	if f.Verbose {
		d.Logger = program.NewLogger(f.stderr(cmd), slog.LevelDebug)
	}
	if f.Trace {
		d.Trace = recording.NewTracer(f.stderr(cmd)).Peer("server")
	}
	if to, err = f.Target(cmd, target); err != nil {
		return nil, nil, err
	}
	d.Revision = cmp.Or(d.Revision, f.Config.Revision)
	if err := f.record.Observe(d, to, f.Config.CallerHeaders()); err != nil {
		return nil, nil, err
	}
	d.Auth, err = credstore.AuthorizerFor(cmd.Context(), to, f.Config.Login.Flags())
	return d, to, err
}

func (f *Flags) Target(cmd *cobra.Command, words []string) (client.Target, error) {
	header, err := ParseHeaders(f.Headers)
	if err != nil {
		return nil, err
	}
	var target client.Target
	switch name := words[0]; {
	case f.isCommand(cmd):
		options, err := f.Env.Command(words)
		if err != nil {
			return nil, err
		}
		target = &client.CommandTarget{CommandOptions: options}
	case IsURL(name):
		target = &client.HTTPTarget{URL: name}
	default:
		if target, err = f.Config.Target(cmd, name); err != nil {
			return nil, err
		}
	}
	if CommandAt(cmd) < 0 && !f.Starts && f.Env.Given() {
		return nil,
			errors.New("--env and --env-all require -- and a command; for a server in a configuration file, write " +
				"the variables to its env")
	}
	if p, ok := target.(*client.CommandTarget); ok && f.Timeout > 0 {
		p.ExitGrace = min(f.Timeout/10+time.Millisecond, 2*time.Second)
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
	return name != "localhost" && !strings.ContainsAny(name, ":/") && !strings.HasSuffix(name, ".json") &&
		!strings.HasSuffix(name, ".jsonc")
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
	return fmt.Errorf("%q is neither a URL nor the name of a server; write https:// before a host, add the server "+
		"with parley add, or write -- before a command", name)
}

// required matches the placeholder of an argument in the usage of a command.
var required = regexp.MustCompile(`^[A-Z]+$`)

// CommandAdvice returns what to write if word is a TARGET that the user has meant as a command, or "".
func CommandAdvice(cmd *cobra.Command, word string) string {
	if IsURL(word) || strings.HasPrefix(word, "-") {
		return ""
	}
	if _, err := exec.LookPath(word); err != nil {
		return ""
	}
	arguments := ""
	for _, placeholder := range strings.Fields(cmd.Use)[1:] { // those that come before --
		if placeholder != "TARGET" && required.MatchString(placeholder) {
			arguments += " " + placeholder
		}
	}
	command := quoting.OfUser().Quote(word) + " …"
	if i := slices.Index(os.Args, word); i >= 0 && arguments == "" && !strings.Contains(cmd.Use, "…") {
		command = config.MaskedCommand(word, os.Args[i+1:])
	}
	return fmt.Sprintf("for a server that is a command, write -- in front of it: %s%s -- %s", cmd.CommandPath(),
		arguments, command)
}

// ParseHeaders parses headers in the notation of curl. Errors do not contain the values, which can be secret.
func ParseHeaders(lines []string) (http.Header, error) {
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

// CloseQuietly closes a client. It ignores the error, because the user already has the result.
func CloseQuietly(c *client.Client) { _ = c.Close() }

func (f *Flags) Parts() (*ConfigFlags, *Flags) { return &f.Config, f }

// CacheKey identifies the lists of the server that name means. It contains everything that the lists depend on, except
// for the login. shown is the URL for the user, empty if it may have secrets. atURL reports whether the server is at a
// URL. The key is empty if there is no such server.
func (f *Flags) CacheKey(name string) (key, shown string, atURL bool) {
	if IsURL(name) {
		if u, err := url.Parse(name); err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
			shown = name
		}
		return fmt.Sprintf("url %q %q %q", name, f.Headers, f.Revision), shown, true
	}
	loaded, _ := f.Config.Read()
	if loaded == nil {
		return "", "", false
	}
	s, err := loaded.Find(name)
	if err != nil {
		return "", "", false
	}
	key = fmt.Sprintf("server %q %q %q %q %q %q %q %q %q %q %+v", loaded.Path(), s.Name, s.Command, s.Args, s.Env,
		s.EnvFile, s.Dir, s.URL, s.Headers, f.Revision, s.Confine)
	return key, "", s.URL != ""
}

// use records that the user has used a server, for the completion of its URL, and so that completion may start it if it
// is of a file that --config names. Completion is not worth an error.
func (f *Flags) use(cmd *cobra.Command, target []string) {
	isName := !IsURL(target[0])
	if f.isCommand(cmd) || f.Named || isName && len(f.Config.Paths) == 0 {
		return
	}
	if cache, err := listing.OpenCache(); err == nil {
		if key, shown, _ := f.CacheKey(target[0]); shown != "" || isName && key != "" {
			_ = cache.Use(key, shown)
		}
	}
}

// Remember keeps the lists of a server for completion.
func (f *Flags) Remember(cmd *cobra.Command, target []string, c *client.Client, lists *listing.Names) {
	if f.isCommand(cmd) {
		return
	}
	cache, err := listing.OpenCache()
	if err != nil {
		return
	}
	if key, shown, _ := f.CacheKey(target[0]); key != "" {
		lists.Completes = c.Server().Capabilities.Completions != nil
		_ = cache.Update(key, cache.SetNames(shown, lists))
	}
}

func IsURL(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}
