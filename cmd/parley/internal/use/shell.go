package use

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	linesh "github.com/parley-mcp/parley/cmd/parley/internal/use/shell"
	"github.com/parley-mcp/parley/mcp"
)

const maxScriptLine = 16 << 20 // bytes, for arguments in JSON

func NewShell() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "shell TARGET [flags]",
		Short: "Use a server interactively",
		Long: `Connect to a server once, and run commands with it: ls, call, read, prompt, complete, watch, ping and task,
as those of parley but without TARGET and the flags of the connection. Words are quoted as in a shell; nothing
is expanded.

The tab key completes commands, names, arguments and values, and the arrow keys show the history. Ctrl-C cancels a
command, Ctrl-D ends the shell. Without a terminal, parley runs the lines of standard input, and ends at the first
command that fails, with its exit code. Lines that begin with # are comments.

` + dialing.TargetHelp,
		Example: `
parley shell files
parley shell -- npx -y @modelcontextprotocol/server-everything
echo 'call greet name=Ada' | parley shell http://127.0.0.1:7777/mcp`,
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			return runShell(cmd, &flags, target)
		}),
	}
	flags.AddTo(cmd, "wait at most this `time` for each response, such as 90s (the default depends on the request)")
	flags.addSession(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

// shell is an interactive session with one server. Its commands find it in their context.
type shell struct {
	*session
	cmd    *cobra.Command // parley shell
	server client.Target
	editor *linesh.Editor // nil without a terminal
	lists  shellLists
}

// runningShell returns the shell that runs a command, or nil.
func runningShell(cmd *cobra.Command) *shell {
	s, _ := dialing.ShellOf(cmd).(*shell)
	return s
}

func runShell(cmd *cobra.Command, flags *sessionFlags, words []string) error {
	s := &shell{cmd: cmd}
	var err error
	s.session, err = flags.open(cmd, words, "shell", remembersTasks(cmd),
		func(d *client.Dialer, to client.Target) error {
			s.server = to
			d.OnConnectionLost = func(err error) { s.notify("The connection is lost: " + failure.Explain(err)) }
			if level := mcp.LoggingLevel(flags.logLevel); level != "" {
				d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
					if level.Enables(m.Level) {
						s.notify(logLine(m))
					}
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	defer dialing.CloseQuietly(s.Client)
	s.use(nil) // no command runs yet
	if !form.Interactive(cmd) {
		return s.script(cmd.InOrStdin())
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if err := s.edit(); err != nil {
		return err
	}
	watching.Go(func() { s.watch(ctx) })
	return s.interact()
}

// edit prepares the editor.
func (s *shell) edit() error {
	dir, err := credstore.Dir()
	if err != nil {
		return err
	}
	history, err := linesh.OpenHistory(filepath.Join(dir, "history"), isSecretLine)
	if err != nil {
		s.cmd.PrintErrln("parley: warning: cannot read the history: " + terminal.Line(err.Error()))
	}
	in, ok := s.cmd.InOrStdin().(*os.File)
	if !ok {
		return errors.New("the terminal must be a file")
	}
	s.editor = linesh.NewEditor(in, s.cmd.ErrOrStderr(), history, s.complete)
	return nil
}

// isSecretLine reports whether a line sets an argument whose name says that it is secret.
func isSecretLine(line string) bool {
	words, err := linesh.Split(line)
	if err != nil {
		return true // the end of the line is not known
	}
	return slices.ContainsFunc(words, func(word string) bool {
		name, _, isArgument := strings.Cut(strings.TrimPrefix(word, "--answer="), "=")
		if isArgument && config.IsSecretName(strings.TrimSuffix(name, ":")) {
			return true
		}
		return slices.ContainsFunc(jsonName.FindAllStringSubmatch(word, -1),
			func(m []string) bool { return config.IsSecretName(m[1]) })
	})
}

// jsonName matches the names of the members of a JSON object.
var jsonName = regexp.MustCompile(`"([^"]*)"\s*:`)

// interact runs the lines that the user enters.
func (s *shell) interact() error {
	info := s.Server().Info
	s.cmd.PrintErrln(terminal.Line(fmt.Sprintf("%s %s · MCP %s. Type help, or press tab. Ctrl-D ends the shell.",
		info.Name, info.Version, s.Revision())))
	for s.cmd.Context().Err() == nil {
		line, err := s.editor.ReadLine("parley> ")
		switch {
		case errors.Is(err, linesh.ErrInterrupted):
			continue
		case errors.Is(err, io.EOF):
			s.cmd.PrintErrln()
			return nil
		case err != nil:
			return err
		}
		done, err := s.run(line)
		if done {
			return nil
		}
		_ = err // is printed
	}
	return context.Cause(s.cmd.Context())
}

// script runs the lines of a reader until one fails.
func (s *shell) script(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxScriptLine)
	for n := 1; lines.Scan(); n++ {
		done, err := s.run(lines.Text())
		if err != nil || done {
			return err
		}
		if err := s.cmd.Context().Err(); err != nil {
			return context.Cause(s.cmd.Context())
		}
	}
	return lines.Err()
}

// run runs one line. It prints the error of the command, and returns it with its exit code. done reports that the line
// ends the shell.
func (s *shell) run(line string) (done bool, err error) {
	words, err := linesh.Split(line)
	if err != nil {
		s.cmd.PrintErrln("parley: " + err.Error())
		return false, failure.WithCode(failure.ExitOther, failure.Reported(err))
	}
	if len(words) == 0 {
		return false, nil
	}
	if words[0] == "exit" || words[0] == "quit" {
		return true, nil
	}
	ctx, cancel := context.WithCancel(dialing.WithShell(s.cmd.Context(), s))
	defer cancel()
	if s.editor != nil {
		defer program.OnInterrupt(ctx, cancel)()
	}
	root := newShellRoot(s.cmd)
	root.SetArgs(words)
	used, err := root.ExecuteContextC(ctx)
	s.progress.Done()
	if err == nil {
		return false, nil
	}
	code := failure.Code(s.cmd.Context(), err)
	failure.Print(s.cmd.ErrOrStderr(), err, code, output.Of(used))
	return false, failure.WithCode(code, failure.Reported(err))
}

// newShellRoot returns the commands of a shell.
func newShellRoot(of *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: "parley", SilenceErrors: true, SilenceUsage: true, Args: program.UnknownCommand,
		Short: "Commands of the shell",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(of.OutOrStdout())
	root.SetErr(of.ErrOrStderr())
	root.SetIn(of.InOrStdin())
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { program.PrintHelp(cmd, false) })
	root.AddCommand(NewLs(), NewCall(), NewRead(), NewPrompt(), NewComplete(), NewWatch(), NewPing(), NewTask(),
		&cobra.Command{Use: "exit", Short: "End the shell"})
	output.AddFlag(root)
	_ = root.PersistentFlags().Set(output.Flag, string(output.Of(of))) // the value is valid
	for _, cmd := range root.Commands() {
		adaptToShell(cmd)
	}
	return root
}

// connectionFlags are the flags of a connection, which commands of a shell do not have.
var connectionFlags = []string{"config", "env", "env-all", "header", "input", "log-level", "no-redact", "record",
	"revision", "root", "trace", "verbose"}

// adaptToShell removes TARGET, and the flags of the connection, from a command and its subcommands.
func adaptToShell(cmd *cobra.Command) {
	cmd.Use = strings.NewReplacer(" [TARGET [NAME]]", " [NAME]", " TARGET", "").Replace(cmd.Use)
	cmd.Long = strings.TrimSpace(strings.NewReplacer(serversHelp, "", dialing.TargetHelp, "").Replace(cmd.Long))
	cmd.Example = ""
	for _, name := range append([]string{"status"}, connectionFlags...) {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
	for _, sub := range cmd.Commands() {
		adaptToShell(sub)
	}
}

// check returns an error if the command line of a shell has a flag of the connection.
func (s *shell) check(cmd *cobra.Command) error {
	for _, name := range connectionFlags {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			return fmt.Errorf("--%s is a flag of parley shell", name)
		}
	}
	return nil
}

// Target implements dialShell.
func (s *shell) Target() client.Target { return s.server }

// Dial implements dialShell. The settings cannot change the client of the shell; some only read the target.
func (s *shell) Dial(cmd *cobra.Command, settings []func(*client.Dialer, client.Target) error) (*client.Client, error) {
	if err := s.check(cmd); err != nil {
		return nil, err
	}
	for _, set := range settings {
		if err := set(new(client.Dialer), s.server); err != nil {
			return nil, err
		}
	}
	return s.Client, nil
}

// notify prints a line above the one that the user edits, or above the progress of a command.
func (s *shell) notify(line string) {
	line = terminal.Line(line)
	if s.editor == nil || !s.editor.Print(line+"\n") {
		s.progress.Println(line)
	}
}

// watch prints the changes of the server's lists.
func (s *shell) watch(ctx context.Context) {
	for change, err := range s.Watch(ctx, client.WatchFilter{Tools: true, Prompts: true, Resources: true}) {
		if err != nil {
			return // the server does not support it, or the shell ends
		}
		s.lists.forget()
		if change.Resync {
			continue
		}
		if change.Kind == client.ResourceUpdated {
			s.notify("The resource " + change.URI + " was updated.")
			continue
		}
		s.notify("The list of " + nameOfList(change.Kind) + " has changed.")
	}
}

const (
	tabTimeout = 2 * time.Second  // for what the server lists or completes
	listsAge   = 10 * time.Second // for which completion uses lists again
)

// shellLists keeps the lists of a shell's server for completion. It is safe for concurrent use.
type shellLists struct {
	mu    sync.Mutex
	lists *listing.Names
	until time.Time
}

// Names implements dialShell. It returns empty lists if the server does not answer.
func (s *shell) Names(ctx context.Context) *listing.Names {
	l := &s.lists
	l.mu.Lock()
	lists, until := l.lists, l.until
	l.mu.Unlock()
	if lists != nil && time.Now().Before(until) {
		return lists
	}
	listed, _ := listing.All(ctx, s.Client) // incomplete lists are better than none
	if listed == nil {
		return new(listing.Names)
	}
	lists = listed.Names()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists, l.until = lists, time.Now().Add(listsAge)
	return lists
}

// forget makes get ask the server again.
func (l *shellLists) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = nil
}

// Values implements dialShell.
func (s *shell) Values(ctx context.Context, params mcp.CompleteParams) []string {
	if s.Server().Capabilities.Completions == nil {
		return nil
	}
	completion, err := s.Complete(ctx, params)
	if err != nil {
		return nil
	}
	return completion.Values
}

// complete returns the candidates for the current word of a line. It implements the function of shell.NewEditor.
func (s *shell) complete(line string) linesh.Candidates {
	ctx, cancel := context.WithTimeout(s.cmd.Context(), tabTimeout)
	defer cancel()
	before, current, start := linesh.Cursor(line)
	offered, directive := s.words(ctx, before, current)
	found := linesh.Candidates{Start: start, Open: directive&cobra.ShellCompDirectiveNoSpace != 0}
	for _, w := range offered {
		word, _, _ := strings.Cut(w, "\t")
		if !strings.HasPrefix(word, current) || terminal.Line(word) != word {
			continue
		}
		if name, isName := strings.CutSuffix(word, "="); isName {
			word = quoting.Unix.Quote(name) + "="
		} else {
			word = quoting.Unix.Quote(word)
		}
		found.Words = append(found.Words, word)
	}
	slices.Sort(found.Words)
	found.Words = slices.Compact(found.Words)
	return found
}

// longFlag matches the names of flags in their help.
var longFlag = regexp.MustCompile(`(?m)--[a-z-]+`)

// words returns the words that can follow others, as the completion of the commands in other shells does.
func (s *shell) words(ctx context.Context, before []string, current string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	root := newShellRoot(s.cmd)
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(before)
	switch {
	case err != nil:
		return nil, cobra.ShellCompDirectiveError
	case strings.HasPrefix(current, "-"):
		return longFlag.FindAllString(cmd.Flags().FlagUsages()+root.PersistentFlags().FlagUsages(), -1),
			cobra.ShellCompDirectiveDefault
	case cmd.HasSubCommands() && len(rest) == 0:
		var names []cobra.Completion
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return names, cobra.ShellCompDirectiveDefault
	case cmd.ValidArgsFunction == nil || cmd.ParseFlags(rest) != nil:
		return nil, cobra.ShellCompDirectiveError
	}
	cmd.SetContext(dialing.WithShell(ctx, s))
	return cmd.ValidArgsFunction(cmd, cmd.Flags().Args(), current)
}
