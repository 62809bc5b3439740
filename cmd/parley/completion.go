package main

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
)

// completing is a command line whose last word a shell completes.
type completing struct {
	cmd    *cobra.Command
	config *configFlags
	dial   *dialFlags // nil if the command does not connect to a server
	args   []string   // the arguments before the word
	word   string     // the beginning of the word
}

// completion returns the words that a shell offers for an argument. It must return within completionTimeout, must not
// print anything, and has no error: a shell offers nothing then.
type completion func(*completing) ([]cobra.Completion, cobra.ShellCompDirective)

// completionFlags are the flags of a command that determine the servers that its arguments can name.
type completionFlags interface {
	completionFlags() (*configFlags, *dialFlags)
}

func (f *configFlags) completionFlags() (*configFlags, *dialFlags) { return f, nil }

func (f *dialFlags) completionFlags() (*configFlags, *dialFlags) { return &f.config, f }

// completes lets shells complete the arguments of a command. Each of kinds completes one argument, and the last one
// also completes all further arguments. After --, shells complete commands and files.
func completes(cmd *cobra.Command, flags completionFlags, kinds ...completion) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if afterDash(cmd, args) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		c := &completing{cmd: cmd, args: args, word: word}
		c.config, c.dial = flags.completionFlags()
		return kinds[min(len(args), len(kinds)-1)](c)
	}
}

// afterDash reports whether the word that a shell completes comes after --. Cobra has added another -- to the end of the
// arguments, so ArgsLenAtDash alone does not tell if -- is the argument before the word.
func afterDash(cmd *cobra.Command, args []string) bool {
	line := os.Args
	return cmd.ArgsLenAtDash() < len(args) || len(line) > 1 && line[len(line)-2] == "--"
}

// completeTarget completes the name of a server in the configuration files.
func completeTarget(c *completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.config.names(), cobra.ShellCompDirectiveNoFileComp
}

// completeNothing is for arguments that cannot be completed.
func completeNothing(*completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeWords returns a completion that offers the same words each time.
func completeWords(words ...cobra.Completion) completion {
	return func(*completing) ([]cobra.Completion, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// names returns the names of the servers in the configuration files that can be read, and those of connections without
// --config.
func (f *configFlags) names() (names []cobra.Completion) {
	if len(f.paths) == 0 {
		names = connectionNames()
	}
	workspace, err := os.Getwd()
	files := f.files()
	if err != nil || len(files) == 0 {
		return names
	}
	loaded, err := config.Load(workspace, files...)
	if err != nil && loaded == nil {
		return names
	}
	for i := range loaded.Servers {
		if name := loaded.Servers[i].Original; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
