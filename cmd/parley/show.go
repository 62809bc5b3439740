package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/output"
)

// outputFlag is the flag --output of all commands.
const outputFlag = "output"

// addOutput adds the flag --output to a command and its subcommands.
func addOutput(root *cobra.Command) {
	format := output.Table
	root.PersistentFlags().VarP(&format, outputFlag, "o", "table, json or yaml, also for errors")
	_ = root.RegisterFlagCompletionFunc(outputFlag, cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// format returns the output format of a command line.
func format(cmd *cobra.Command) output.Format {
	if flag := cmd.Flag(outputFlag); flag != nil {
		return output.Format(flag.Value.String())
	}
	return output.Table
}

// show prints value to stdout as JSON or YAML, or calls table, which prints it for people.
func show(cmd *cobra.Command, value any, table func(w io.Writer) error) error {
	if f := format(cmd); f != output.Table {
		return output.Write(cmd.OutOrStdout(), f, value)
	}
	return table(cmd.OutOrStdout())
}
