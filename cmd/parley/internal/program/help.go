package program

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// mainFlags are the flags that --help describes for commands with many flags; for other commands it describes all but
// rareFlags. Of further flags it has the names, and parley help COMMAND the descriptions.
var mainFlags = map[string][]string{
	"up":      {"addr", "auth", "config", "dir", "public-url", "stdio", "verbose"},
	"serve":   {"addr", "auth", "dir", "public-url", "stdio"},
	"bridge":  {"addr", "config", "env", "header", "login", "verbose"},
	"mock":    {"addr", "schema"},
	"tap":     {"addr", "config", "header", "quiet", "record"},
	"inspect": {"config", "env", "header", "port", "print-url", "record"},
	"test":    {"config", "env", "junit", "output", "revisions", "run", "target", "timeout", "verbose"},
}

// rareFlags are flags of many commands that few users need.
var rareFlags = []string{"env-all", "input", "log-level", "no-redact", "record", "revision", "root", "trace"}

// rareCommands are the commands that the help of parley lists by name only.
var rareCommands = []string{"complete", "completion", "key", "logout", "man",
	"ping", "ready", "rm", "task", "version", "whoami"}

// ExitCodesKey is the annotation with the exit codes of a command that differ from the usual ones.
const ExitCodesKey = "exit codes"

const exitCodesHelp = "0 success, 1 other errors, 4 the server cannot be reached or does not answer in time, " +
	"5 the tool returned an error, 6 a login is required or rejected, 130 interrupted"

// target matches TARGET in the usage of a command, in place of which a command line can end with a command.
var target = regexp.MustCompile(` \[?TARGET…?( \[NAME\])?\]?`)

// PrintHelp prints what a command does and how to use it. With all, it includes what few users need.
func PrintHelp(cmd *cobra.Command, all bool) {
	w := cmd.OutOrStdout()
	width := HelpWidth(w)
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
		if line := cmd.UseLine(); strings.Contains(cmd.Long, "omit TARGET") && target.MatchString(line) {
			b.WriteString("       " + target.ReplaceAllString(line, "$1") + " -- COMMAND\n")
		}
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString(commandsHelp(cmd, width, all))
	}
	if cmd.HasParent() || all {
		b.WriteString(FlagsHelp(cmd, width, all))
	}
	codes, differs := cmd.Annotations[ExitCodesKey]
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

// HelpWidth returns the number of columns of a help text that is written to w.
func HelpWidth(w io.Writer) int {
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

// FlagsHelp describes the flags of a command.
func FlagsHelp(cmd *cobra.Command, width int, all bool) string {
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
		b.WriteString("\n" + paragraph(fmt.Sprintf("More flags (parley help %s): %s",
			strings.TrimPrefix(cmd.CommandPath(), "parley "), strings.Join(more, ", ")), width))
	}
	return b.String()
}
