package output

import (
	"io"

	"github.com/spf13/cobra"
)

// Flag is the flag --output of all commands.
const Flag = "output"

// AddFlag adds the flag --output to a command and its subcommands.
func AddFlag(root *cobra.Command) {
	format := Table
	root.PersistentFlags().VarP(&format, Flag, "o", "table, json or yaml, also for errors")
	_ = root.RegisterFlagCompletionFunc(Flag, cobra.FixedCompletions(Formats(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// Of returns the output format of a command line.
func Of(cmd *cobra.Command) Format {
	if flag := cmd.Flag(Flag); flag != nil {
		return Format(flag.Value.String())
	}
	return Table
}

// Show prints value to stdout as JSON or YAML, or calls table, which prints it for people.
func Show(cmd *cobra.Command, value any, table func(w io.Writer) error) error {
	if f := Of(cmd); f != Table {
		return Write(cmd.OutOrStdout(), f, value)
	}
	return table(cmd.OutOrStdout())
}
