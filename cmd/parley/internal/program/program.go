// Package program contains what all commands of parley share: the version, the checks of arguments, the help, the
// signals that end the program, and the log for the user.
package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
)

// CompleteFlag lets shells complete a flag of a command with words.
func CompleteFlag[Word ~string](cmd *cobra.Command, name string, words []Word) {
	// The flag exists.
	_ = cmd.RegisterFlagCompletionFunc(name,
		cobra.FixedCompletions(WordsOf(words), cobra.ShellCompDirectiveNoFileComp))
}

// Commas joins words with commas.
func Commas[Word ~string](words []Word) string {
	return strings.Join(WordsOf(words), ", ")
}

// WordsOf returns words as strings.
func WordsOf[Word ~string](words []Word) (all []string) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// UnknownCommand returns an error if the first argument is not the name of a command.
func UnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if slices.Contains(names, "ls") && cmd.HasParent() && strings.Contains(args[0], "://") {
		return fmt.Errorf("unknown command %q; did you mean %s ls %s?", args[0], cmd.CommandPath(),
			quoting.OfUser().Quote(args[0]))
	}
	near := terminal.Nearest(args[0], names)
	if same := synonyms[args[0]]; slices.Contains(names, same) {
		near = same
	}
	if near != "" {
		return fmt.Errorf("unknown command %q; did you mean %s?", args[0], near)
	}
	return fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())
}

// synonyms are the names that other programs give to commands of parley.
var synonyms = map[string]string{
	"list": "ls", "tools": "ls", "show": "ls", "describe": "ls", "servers": "ls", "status": "ls", "info": "ls",
	"resources": "ls", "prompts": "ls", "run": "call", "exec": "call", "invoke": "call", "use": "call", "get": "read",
	"cat": "read", "remove": "rm", "delete": "rm", "del": "rm", "uninstall": "rm", "new": "add", "start": "up",
	"proxy": "up", "gateway": "up",
	"auth": "login", "authenticate": "login", "signin": "login", "signout": "logout", "check": "doctor",
	"diagnose": "doctor", "validate": "doctor", "debug": "inspect", "inspector": "inspect", "record": "tap",
	"subscribe": "watch", "find": "ls", "repl": "inspect", "shell": "inspect", "connect": "bridge",
}

func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return UnknownCommand(cmd, args)
	case cmd.Name() == "up" && (strings.Contains(args[0], "://") || cmd.ArgsLenAtDash() >= 0):
		add := quoting.OfUser().Command([]string{"add"}, "SERVER", args[0])
		if cmd.ArgsLenAtDash() >= 0 {
			add = quoting.OfUser().CommandWith([]string{"add", "SERVER"}, args)
		}
		return fmt.Errorf("unexpected argument %q; parley up serves the servers of your configuration, so add it "+
			"first: %s", args[0], add)
	case cmd.Name() == "up":
		return fmt.Errorf("unexpected argument %q; write --config %s", args[0], quoting.OfUser().Quote(args[0]))
	case cmd.Name() == "serve" && strings.Contains(args[0], ":") && !strings.Contains(args[0], "://"):
		return fmt.Errorf("unexpected argument %q; write --addr %s", args[0], quoting.OfUser().Quote(args[0]))
	}
	return fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
}

// OneArgument returns the only argument of a command.
func OneArgument(cmd *cobra.Command, args []string, what string) (string, error) {
	switch len(args) {
	case 0:
		return "", fmt.Errorf("no %s; see %s --help", what, cmd.CommandPath())
	case 1:
		return args[0], nil
	}
	return "", fmt.Errorf("unexpected argument %q; %s takes one %s", args[1], cmd.Name(), what)
}

// FilesArgs requires one or more files.
func FilesArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("FILE is missing; see %s --help", cmd.CommandPath())
	}
	return nil
}

// Repeated is the value of a flag that can be given several times. Pflag writes the default of its own type with a CSV
// encoder, which took a quarter of the time to make the commands.
type Repeated []string

func (r *Repeated) String() string { return strings.Join(*r, ",") }

func (r *Repeated) Set(value string) error {
	*r = append(*r, value)
	return nil
}

func (*Repeated) Type() string { return "stringArray" }

// NotifyContext returns a context that ends at SIGINT and SIGTERM. The next signal exits immediately, without a
// graceful shutdown.
func NotifyContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		cancel()
		<-received
		os.Exit(failure.ExitInterrupted)
	}()
	return ctx
}
