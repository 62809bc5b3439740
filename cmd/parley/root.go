package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mcp/parley/cmd/parley/internal/check"
	"github.com/parley-mcp/parley/cmd/parley/internal/inspect"
	"github.com/parley-mcp/parley/cmd/parley/internal/login"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/scaffold"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/cmd/parley/internal/use"
	pages "github.com/parley-mcp/parley/docs/program"
	"github.com/parley-mcp/parley/mcp"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Serve, combine and call MCP servers",
		Long: "parley is a server, gateway and client for the Model Context Protocol (MCP), in every revision of the " +
			"protocol.",
		Example: `
parley up                      # serves demo tools at http://127.0.0.1:7777/mcp
parley up --config mcp.json    # serves all servers of a file there
parley ls http://127.0.0.1:7777/mcp
parley call http://127.0.0.1:7777/mcp greet name=Ada
parley ls -- npx -y @modelcontextprotocol/server-everything`,
		Version:       program.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          program.UnknownCommand,
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
			use.NewLs(), use.NewCall(), use.NewTask(), use.NewRead(), use.NewPrompt(),
			use.NewComplete(),
			use.NewWatch(),
			use.NewSkills(),
		}},
		{"Serve:", []*cobra.Command{serve.NewUp(), serve.NewServe(), serve.NewBridge(login.LoginFor),
			traffic.NewMock(), serve.NewReady(), scaffold.NewNew()}},
		{"Debug and Test:", []*cobra.Command{check.NewDoctor(), use.NewPing(), inspect.New(), traffic.NewTap(),
			check.NewTest()}},
		{"Configure:", []*cobra.Command{servers.NewAdd(), servers.NewRm(), servers.NewImport(), servers.NewInstall(),
			servers.NewRegistry(), servers.NewConfig(), serve.NewLock(), serve.NewKey()}},
		{"Log In:", []*cobra.Command{login.NewLogin(), login.NewLogout(), login.NewWhoami()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newMan(), completion.New(), completion.NewOffer(newRoot))
	root.SetVersionTemplate(versionText())
	root.CompletionOptions.DisableDefaultCmd = true // its scripts evaluate words of servers
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { program.PrintHelp(cmd, false) })
	indentExamples(root)
	output.AddFlag(root)
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

// flagAdvice returns what the user can do about an error of a flag.
func flagAdvice(cmd *cobra.Command, err error) string {
	if words := cmd.Flags().Args(); len(words) > 0 && cmd.Flags().Lookup("env-all") != nil {
		if advice := dialing.CommandAdvice(cmd, words[0]); advice != "" {
			return advice
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		for line := range strings.Lines(cmd.Flags().FlagUsages()) {
			if _, flag, found := strings.Cut(line, "--"); found {
				names = append(names, strings.Fields(flag)[0])
			}
		}
		if near := terminal.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			return "did you mean --" + near + "?"
		}
	}
	return "see " + cmd.CommandPath() + " --help"
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of parley, what it was built from, and the revisions that it supports",
		Args:  program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result := struct {
				program.BuildInfo
				Revisions []mcp.Revision `json:"revisions"`
			}{program.Build(), mcp.Revisions()}
			return output.Print(cmd, result, "%s", versionText())
		},
	}
}

// versionText is what parley version and parley --version print.
func versionText() string {
	build := program.Build()
	text := "parley " + build.Version + "\n"
	if build.Commit != "" {
		text += "commit " + build.Commit + ", " + build.Date + "\n"
	}
	return text + build.Go + "\nMCP " + program.Commas(mcp.Revisions()) + "\n"
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "Print the manual page of parley",
		Long: `Print the manual page parley(1), which describes all commands and flags. To install it, run:

  mkdir -p ~/.local/share/man/man1
  parley man > ~/.local/share/man/man1/parley.1

The program man finds the page there if PATH contains ~/.local/bin.`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), program.ManPage(cmd.Root()))
			return err
		},
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC|topics|all]",
		Short: "Describe all flags of a command, or print a page of the documentation",
		Long: `Describe a command with all of its flags, or print a page of the documentation. parley help topics lists the
pages, and parley help all prints all of them as one file of Markdown, for a model. If a command and a page have the
same name, parley prints both.`,
		Example: `
parley help up
parley help topics
parley help policy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				program.PrintHelp(cmd.Root(), true)
				return nil
			case len(args) == 1 && args[0] == "topics":
				return printTopics(cmd.OutOrStdout())
			case len(args) == 1 && args[0] == "all":
				return printPages(cmd.OutOrStdout())
			}
			return printTopic(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return topicNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// printTopics lists the pages.
func printTopics(w io.Writer) error {
	var rows [][]string
	for _, p := range pages.Pages() {
		rows = append(rows, []string{p.Name, strings.ReplaceAll(p.Title, "`", "")})
	}
	return terminal.WrappedTable(w, program.HelpWidth(w), []string{"TOPIC", "PAGE"}, rows)
}

// printPages prints all pages as they are.
func printPages(w io.Writer) error {
	for i, p := range pages.Pages() {
		text := p.Text
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// printTopic prints the page with a name and the help of the command that words name.
func printTopic(cmd *cobra.Command, words []string) error {
	w := cmd.OutOrStdout()
	found, rest, err := cmd.Root().Find(words)
	isCommand := err == nil && len(rest) == 0 && found.HasParent()
	page := slices.IndexFunc(pages.Pages(), func(p pages.Page) bool { return len(words) == 1 && p.Name == words[0] })
	if page >= 0 {
		if _, err := io.WriteString(w, program.ManualText(pages.Pages()[page].Text, program.HelpWidth(w))); err != nil {
			return err
		}
		if isCommand {
			_, err := io.WriteString(w, program.FlagsHelp(found, program.HelpWidth(w), true))
			return err
		}
		return nil
	}
	if isCommand {
		program.PrintHelp(found, true)
		return nil
	}
	text := strings.Join(words, " ")
	if near := terminal.Nearest(text, topicNames(cmd.Root())); near != "" {
		return fmt.Errorf("unknown command or topic %q; did you mean %s?", text, near)
	}
	return fmt.Errorf("unknown command or topic %q; see parley --help and parley help topics", text)
}

// topicNames returns the names of commands and pages.
func topicNames(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	for _, p := range pages.Pages() {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return append(names, "topics", "all")
}
