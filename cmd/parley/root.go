package main

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/mcp"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Serve, combine and call MCP servers",
		Long:  "parley is a server, gateway and client for the Model Context Protocol (MCP), in every revision of the protocol.",
		Example: `
parley up                      # serves demo tools at http://127.0.0.1:7777/mcp
parley up --config mcp.json    # serves all servers of a file there
parley ls http://127.0.0.1:7777/mcp
parley call http://127.0.0.1:7777/mcp greet name=Ada
parley ls -- npx -y @modelcontextprotocol/server-everything`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s", err, flagAdvice(cmd, err))
	})
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Use Servers:", []*cobra.Command{
			newLs(), newCall(), newTask(), newRead(), newPrompt(), newComplete(), newWatch(), newSearch(), newShell(), newConnect(), newDisconnect(),
		}},
		{"Serve:", []*cobra.Command{newUp(), newServe(), newBridge(), newMock(), newReady()}},
		{"Find Faults:", []*cobra.Command{newDoctor(), newPing(), newInspect(), newTap(), newReplay(), newHAR(), newDiff(), newTest()}},
		{"Configure:", []*cobra.Command{newAdd(), newRm(), newImport(), newInstall(), newRegistry(), newConfig(), newLock()}},
		{"Log In:", []*cobra.Command{newLogin(), newLogout(), newWhoami()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newCompletion(), newOffer())
	root.CompletionOptions.DisableDefaultCmd = true // its scripts evaluate words of servers
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd, false) })
	indentExamples(root)
	addOutput(root)
	return root
}

// indentExamples indents the examples of a command and of its subcommands.
func indentExamples(cmd *cobra.Command) {
	cmd.Example = indented(cmd.Example)
	for _, c := range cmd.Commands() {
		indentExamples(c)
	}
}

// indented returns the lines of examples as the help shows them.
func indented(examples string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(examples)) {
		if line != "\n" {
			b.WriteString("  ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// unknownCommand returns an error if the first argument is not the name of a command.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := nearest.Name(args[0], names); near != "" {
		return fmt.Errorf("unknown command %q; did you mean %s?", args[0], near)
	}
	return fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())
}

// flagAdvice returns what the user can do about an error of a flag.
func flagAdvice(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		for line := range strings.Lines(cmd.Flags().FlagUsages()) {
			if _, flag, found := strings.Cut(line, "--"); found {
				names = append(names, strings.Fields(flag)[0])
			}
		}
		if near := nearest.Name(unknown.GetSpecifiedName(), names); near != "" {
			return "did you mean --" + near + "?"
		}
	}
	return "see " + cmd.CommandPath() + " --help"
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of parley and the revisions of the protocol that it supports",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result := struct {
				Version   string         `json:"version"`
				Revisions []mcp.Revision `json:"revisions"`
			}{version(), mcp.Revisions()}
			return show(cmd, result, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "parley %s\nMCP %s\n", result.Version, commas(result.Revisions))
				return err
			})
		},
	}
}

// commas joins words with commas.
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

// version returns the module version that the Go command has recorded in the binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "0.0.0-dev"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args)
	case cmd.Name() == "up":
		return fmt.Errorf("unexpected argument %q; write --config %s", args[0], quoting.OfUser().Quote(args[0]))
	case cmd.Name() == "serve" && strings.Contains(args[0], ":"):
		return fmt.Errorf("unexpected argument %q; write --addr %s", args[0], quoting.OfUser().Quote(args[0]))
	}
	return fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
}
