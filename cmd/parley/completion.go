package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completing is a command line whose last word a shell completes.
type completing struct {
	ctx    context.Context
	cmd    *cobra.Command
	config *configFlags
	dial   *dialFlags // nil if the command does not connect to a server
	args   []string   // the arguments before the word
	word   string     // the beginning of the word
	dashed bool       // the word comes after --, and can begin with -
}

// completion returns the words that a shell offers for an argument. It prints nothing, and without words the shell offers
// nothing. A function that may wait does so in completing.within.
type completion func(*completing) ([]cobra.Completion, cobra.ShellCompDirective)

// completionFlags are the flags of a command that determine the servers that its arguments can name.
type completionFlags interface {
	completionFlags() (*configFlags, *dialFlags)
}

func (f *configFlags) completionFlags() (*configFlags, *dialFlags) { return f, nil }

func (f *dialFlags) completionFlags() (*configFlags, *dialFlags) { return &f.config, f }

// wordsOf returns words as strings.
func wordsOf[Word ~string](words []Word) (all []string) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// completes lets shells complete the arguments of a command. Each of kinds completes one argument, and the last one
// also completes all further arguments. After --, shells complete commands and files, unless a word there begins with
// -: such a name is no command.
func completes(cmd *cobra.Command, flags completionFlags, kinds ...completion) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c := &completing{ctx: cmd.Context(), cmd: cmd, args: args, word: word}
		if shellOf(cmd) != nil {
			c.args = slices.Insert(args, 0, "") // TARGET, which commands of parley shell do not have
		} else if dash := dashOf(cmd, args); dash >= 0 {
			names := append(args[dash:len(args):len(args)], word)
			if !strings.HasPrefix(names[0], "-") || slices.Contains(names[:len(names)-1], "--") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			c.dashed = true
		}
		cmd.SetIn(strings.NewReader("")) // completion asks no questions
		cmd.SetErr(io.Discard)
		c.config, c.dial = flags.completionFlags()
		if c.dial != nil {
			c.dial.named = true // Cobra adds a -- to a line that a shell completes
		}
		if shellOf(cmd) == nil {
			c.parseOnce()
		}
		return kinds[min(len(c.args), len(kinds)-1)](c)
	}
}

// parseOnce removes the second half of the values of flags that can be repeated: Cobra parses a line that a shell
// completes twice.
func (c *completing) parseOnce() {
	once := func(values *[]string) { *values = (*values)[:len(*values)/2] }
	once(&c.config.paths)
	once(&c.config.policy)
	once(&c.config.inputs)
	if c.dial != nil {
		once(&c.dial.headers)
	}
}

// dashOf returns the index in args of the first word after --, or -1. Cobra has added another -- to the end of the
// arguments, so ArgsLenAtDash alone does not tell if -- is the argument before the word.
func dashOf(cmd *cobra.Command, args []string) int {
	line, ok := cmd.Context().Value(lineKey{}).([]string)
	if !ok {
		line = os.Args
	}
	dash := cmd.ArgsLenAtDash()
	if dash < len(args) || len(line) > 1 && line[len(line)-2] == "--" {
		return dash
	}
	return -1
}
