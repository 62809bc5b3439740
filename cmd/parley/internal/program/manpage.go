package program

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ManPage returns the manual page of the program, parley(1), in the language of man(7). It describes all commands.
func ManPage(root *cobra.Command) string {
	var b strings.Builder
	day, _, _ := strings.Cut(Build().Date, "T")
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		day = ""
	}
	fmt.Fprintf(&b, ".TH %s 1 %q %q\n", strings.ToUpper(root.Name()), day, root.Name()+" "+Version())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", root.Name(), roffLine(root.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n[\\fIFLAGS\\fR] [\\fIARGUMENTS\\fR]\n", root.Name())
	b.WriteString(".SH DESCRIPTION\n")
	roffText(&b, root.Long)
	roffExample(&b, root)
	for _, g := range append(root.Groups(), &cobra.Group{Title: "Other Commands:"}) {
		b.WriteString(".SH " + roffLine(strings.ToUpper(strings.TrimSuffix(g.Title, ":"))) + "\n")
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				roffCommand(&b, c)
			}
		}
	}
	b.WriteString(".SH FLAGS OF ALL COMMANDS\n")
	roffFlags(&b, root.PersistentFlags())
	b.WriteString(".SH EXIT STATUS\n")
	roffText(&b, "Unless a command says otherwise: "+exitCodesHelp)
	b.WriteString(".SH SEE ALSO\n")
	roffText(&b, "parley help topics lists the pages of the documentation, and parley help TOPIC prints one.")
	return b.String()
}

// roffCommand describes a command and its subcommands.
func roffCommand(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.IsAvailableCommand() {
		return
	}
	b.WriteString(".SS " + roffLine(strings.TrimSuffix(cmd.UseLine(), " [flags]")) + "\n")
	roffText(b, cmp.Or(cmd.Long, cmd.Short))
	roffFlags(b, cmd.LocalNonPersistentFlags())
	roffExample(b, cmd)
	if codes := cmd.Annotations[ExitCodesKey]; codes != "" {
		roffText(b, "Exit codes: "+codes)
	}
	for _, c := range cmd.Commands() {
		roffCommand(b, c)
	}
}

// roffFlags describes flags.
func roffFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		b.WriteString(".TP\n\\fB" + roffEscape(name) + "\\fR")
		if value != "" {
			b.WriteString(" \\fI" + roffEscape(value) + "\\fR")
		}
		b.WriteString("\n" + roffLine(usage) + "\n")
		switch f.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			b.WriteString("(default " + roffEscape(f.DefValue) + ")\n")
		}
	})
}

// roffExample writes the examples of a command as they are.
func roffExample(b *strings.Builder, cmd *cobra.Command) {
	if cmd.HasExample() {
		b.WriteString(".PP\nExamples:\n")
		roffBlock(b, cmd.Example)
	}
}

// roffText writes paragraphs. A paragraph with indented lines is a list or code, and is not filled.
func roffText(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.Contains("\n"+paragraph, "\n ") {
			roffBlock(b, paragraph)
		} else {
			b.WriteString(".PP\n" + roffLine(paragraph) + "\n")
		}
	}
}

// roffBlock writes lines that man does not fill.
func roffBlock(b *strings.Builder, text string) {
	b.WriteString(".PP\n.nf\n")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		b.WriteString(roffControl(roffEscape(line)) + "\n")
	}
	b.WriteString(".fi\n")
}

// roffLine returns text as one line that is not a request.
func roffLine(text string) string {
	return roffControl(roffEscape(strings.Join(strings.Fields(text), " ")))
}

// roffControl keeps a line that begins with a dot or an apostrophe from being a request.
func roffControl(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// roffEscape keeps backslashes, and hyphens and quotation marks that a reader copies into a shell. It writes the
// characters that are not in ASCII in a way that every terminal can show.
var roffEscape = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`,
	`…`, `...`, `←`, `\(<-`, `→`, `\(->`).Replace
