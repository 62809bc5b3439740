package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mcp/parley/cmd/parley/internal/manual"
	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	pages "github.com/parley-mcp/parley/docs/program"
)

// mainFlags are the flags that --help describes for commands with many flags, and flagsOfHelp describes for all others.
// Of further flags it has the names, and parley help COMMAND the descriptions.
var mainFlags = map[string][]string{
	"up":      {"addr", "auth", "config", "dir", "public-url", "stdio", "verbose"},
	"serve":   {"addr", "auth", "dir", "public-url", "stdio"},
	"bridge":  {"addr", "config", "env", "header", "login", "verbose"},
	"mock":    {"addr", "pace", "schema"},
	"tap":     {"addr", "config", "header", "quiet", "record"},
	"inspect": {"config", "env", "header", "port", "print-url", "record"},
	"test":    {"config", "env", "junit", "output", "revisions", "run", "target", "timeout", "verbose"},
}

// rareFlags are flags of many commands that few users need.
var rareFlags = []string{"env-all", "images", "input", "log-level", "no-redact", "record", "revision", "root", "trace"}

// rareCommands are the commands that the help of parley lists by name only.
var rareCommands = []string{"complete", "completion", "connect", "diff", "disconnect", "har", "logout", "ping", "ready", "replay", "rm", "task", "version", "whoami"}

// exitCodesKey is the annotation with the exit codes of a command that differ from the usual ones.
const exitCodesKey = "exit codes"

const exitCodesHelp = "0 success, 1 other errors, 4 no connection or no response in time, 5 error of the tool, 6 login or other " +
	"credentials required, 130 interrupted"

// printHelp prints what a command does and how it is used. With all, it describes also what few users need.
func printHelp(cmd *cobra.Command, all bool) {
	w := cmd.OutOrStdout()
	width := helpWidth(w)
	var b strings.Builder
	for i, text := range strings.Split(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		if strings.Contains("\n"+text, "\n ") { // a list
			b.WriteString(text + "\n")
		} else {
			b.WriteString(paragraph(text, width))
		}
	}
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n" + strings.TrimRight(cmd.Example, "\n") + "\n")
	}
	if cmd.HasParent() {
		b.WriteString("\nUsage: " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString(commandsHelp(cmd, width, all))
	}
	if cmd.HasParent() || all {
		b.WriteString(flagsHelp(cmd, width, all))
	}
	codes, differs := cmd.Annotations[exitCodesKey]
	if !differs && all {
		codes = exitCodesHelp
	}
	switch {
	case codes != "" && cmd.HasParent():
		b.WriteString("\n" + paragraph("Exit codes: "+codes, width))
	case len(cmd.Groups()) > 0:
		b.WriteString("\n" + paragraph("parley COMMAND --help describes a command, parley help COMMAND all of its "+
			"flags. parley help topics lists the pages of the documentation.", width))
	}
	_, _ = io.WriteString(w, b.String()) // Cobra returns no error either
}

// helpWidth returns the number of columns of a help text that is written to w.
func helpWidth(w io.Writer) int {
	if width := terminal.Width(w); width > 0 {
		return min(width, 100)
	}
	return 80
}

// paragraph wraps a text.
func paragraph(text string, width int) string {
	return strings.Join(terminal.Wrap(strings.Join(strings.Fields(text), " "), width), "\n") + "\n"
}

// commandsHelp lists the subcommands of a command.
func commandsHelp(cmd *cobra.Command, width int, all bool) string {
	var b strings.Builder
	var more []string
	list := func(title, group string) {
		var rows [][]string
		for _, c := range cmd.Commands() {
			switch {
			case c.GroupID != group || !c.IsAvailableCommand():
			case len(cmd.Groups()) == 0 || all || !slices.Contains(rareCommands, c.Name()):
				rows = append(rows, []string{"  " + c.Name(), c.Short})
			default:
				more = append(more, c.Name())
			}
		}
		if len(rows) > 0 {
			if b.Len() == 0 {
				b.WriteString("\n")
			}
			b.WriteString(title + "\n")
			for _, row := range rows {
				fmt.Fprintf(&b, "%-*s  %s\n", cmd.Commands()[0].NamePadding()+2, row[0], row[1])
			}
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
	list("Commands:", "")
	if len(more) > 0 {
		b.WriteString("\n" + paragraph("More commands: "+strings.Join(more, ", "), width))
	}
	return b.String()
}

// flagsHelp describes the flags of a command.
func flagsHelp(cmd *cobra.Command, width int, all bool) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	var more []string
	used, lists := mainFlags[cmd.Name()]
	add := func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
		case all, lists && slices.Contains(used, f.Name), !lists && !slices.Contains(rareFlags, f.Name):
			shown.AddFlag(f)
		default:
			more = append(more, "--"+f.Name)
		}
	}
	cmd.NonInheritedFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	var b strings.Builder
	if text := shown.FlagUsagesWrapped(width); text != "" {
		b.WriteString("\nFlags:\n" + text)
	}
	if len(more) > 0 {
		b.WriteString("\n" + paragraph(fmt.Sprintf("More flags (parley help %s): %s", strings.TrimPrefix(cmd.CommandPath(), "parley "), strings.Join(more, ", ")), width))
	}
	return b.String()
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC|topics]",
		Short: "Describe all flags of a command, or print a page of the documentation",
		Long: `Describe a command with all of its flags, or print a page of the documentation. parley help topics lists the
pages. If a command and a page have the same name, parley prints both.`,
		Example: `
parley help up
parley help topics
parley help policy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				printHelp(cmd.Root(), true)
				return nil
			case len(args) == 1 && args[0] == "topics":
				return printTopics(cmd.OutOrStdout())
			}
			return printTopic(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
	return terminal.WrappedTable(w, helpWidth(w), []string{"TOPIC", "PAGE"}, rows)
}

// printTopic prints the page with a name and the help of the command that words name.
func printTopic(cmd *cobra.Command, words []string) error {
	w := cmd.OutOrStdout()
	found, rest, err := cmd.Root().Find(words)
	isCommand := err == nil && len(rest) == 0 && found.HasParent()
	page := slices.IndexFunc(pages.Pages(), func(p pages.Page) bool { return len(words) == 1 && p.Name == words[0] })
	if page >= 0 {
		if _, err := io.WriteString(w, manual.Text(pages.Pages()[page].Text, helpWidth(w))); err != nil {
			return err
		}
		if isCommand {
			_, err := io.WriteString(w, flagsHelp(found, helpWidth(w), true))
			return err
		}
		return nil
	}
	if isCommand {
		printHelp(found, true)
		return nil
	}
	text := strings.Join(words, " ")
	if near := nearest.Name(text, topicNames(cmd.Root())); near != "" {
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
	return append(names, "topics")
}
