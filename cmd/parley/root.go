package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/mcp"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Serve, gather and call MCP servers",
		Long: `parley speaks the Model Context Protocol, in every revision of it: it gathers the
servers of a config file behind one endpoint, and calls servers from a terminal.`,
		Example: `
# A server to try things with, at http://127.0.0.1:7777/mcp
parley up

# All servers of a file behind that endpoint
parley up --config mcp.json

# What a server can do, and have it do it
parley ls http://127.0.0.1:7777/mcp
parley call http://127.0.0.1:7777/mcp greet name=Ada
parley read http://127.0.0.1:7777/mcp demo://guide

# Log in where a server wants that; all commands use the login
parley login https://example.com/mcp

# The same with a server that is a program
parley ls -- npx -y @modelcontextprotocol/server-everything`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newUp(), newServe(), newLs(), newCall(), newRead(), newPrompt(), newComplete(), newWatch(), newPing(),
		newLogin(), newLogout(), newWhoami(), newVersion())
	// Cobra's own, in the words of the others.
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short = "Explain a command"
			c.Long = "Explain a command, as --help after its name does."
		case "completion":
			c.Short = "Make a shell complete parley's commands and flags"
			c.Long = "Print a script that makes a shell complete parley's commands and flags. The help of each\nshell's says what to do with it."
		}
	}
	return root
}

// unknownCommand is for what is no command's name.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := nearest(args[0], names); near != "" {
		return fmt.Errorf("unknown command %q: did you mean %s?", args[0], near)
	}
	return fmt.Errorf("unknown command %q: see parley --help", args[0])
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of parley and the revisions it speaks",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "parley %s\nMCP %s\n", version(), commas(mcp.Revisions()))
			return err
		},
	}
}

// commas writes words as a sentence lists them.
func commas[Word ~string](words []Word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// version is what the Go command has recorded of this build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "0.0.0-dev"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected %q: see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}
