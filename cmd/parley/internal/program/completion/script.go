package completion

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/internal/resourceuri"
	"github.com/parley-mcp/parley/mcp"
)

//go:embed completions
var completionScripts embed.FS

// completionHelp says how to install the script of each shell.
var completionHelp = map[string]string{
	"bash": `To load it into this shell:

  source <(parley completion bash)

To load it into each new shell, run once:

  mkdir -p ~/.local/share/bash-completion/completions
  parley completion bash > ~/.local/share/bash-completion/completions/parley

This needs the package bash-completion.`,
	"zsh": `To load it into this shell, after compinit:

  source <(parley completion zsh)

To load it into each new shell, run once:

  mkdir -p ~/.zfunc
  parley completion zsh > ~/.zfunc/_parley

and add to ~/.zshrc, before compinit:

  fpath+=(~/.zfunc)`,
	"fish": `To load it into this shell:

  parley completion fish | source

To load it into each new shell, run once:

  mkdir -p ~/.config/fish/completions
  parley completion fish > ~/.config/fish/completions/parley.fish`,
	"powershell": `To load it into this shell:

  parley completion powershell | Out-String | Invoke-Expression

To load it into each new shell, add the script to your profile:

  parley completion powershell >> $PROFILE`,
}

func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion",
		Short: "Generate a shell completion script",
		Long: `Print a script with which a shell completes commands, flags, servers, tools, prompts, resources and
arguments. The help of each subcommand says how to install the script.`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for shell, file := range map[string]string{"bash": "parley.bash", "zsh": "parley.zsh", "fish": "parley.fish",
		"powershell": "parley.ps1"} {
		cmd.AddCommand(&cobra.Command{
			Use:   shell,
			Short: "Generate the completion script for " + shell,
			Long:  "Print the completion script for " + shell + ".\n\n" + completionHelp[shell],
			Args:  program.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				script, err := completionScripts.ReadFile("completions/" + file)
				if err == nil {
					_, err = cmd.OutOrStdout().Write(script)
				}
				return err
			},
		})
	}
	return cmd
}

// offerCommand is the name of the command that the completion scripts run.
const offerCommand = "__offer"

// NewOffer returns the command with which the completion scripts ask for words. It prints a line with options, and then
// the words as the shell's script reads them.
func NewOffer(newRoot func() *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: offerCommand, Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("__offer is for the scripts of parley completion")
			}
			var b strings.Builder
			complete := func(before []string, current string) *offered {
				return offer(cmd.Context(), newRoot(), before, current)
			}
			switch words := args[1:]; args[0] {
			case "bash":
				offerBash(complete, &b, words)
			case "zsh":
				offerZsh(complete, &b, words)
			case "fish":
				offerFish(complete, &b, words)
			case "powershell":
				offerPowerShell(complete, &b, words)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), b.String())
			return err
		},
	}
}

// offered are the words that a shell can insert.
type offered struct {
	words     []offeredWord
	directive cobra.ShellCompDirective
}

type offeredWord struct{ text, description string }

// shown returns the word in a text for a list, whose descriptions are aligned.
func (w offeredWord) shown(text string, o *offered, before, after string) string {
	if w.description == "" {
		return text
	}
	longest := 0
	for _, other := range o.words {
		longest = max(longest, utf8.RuneCountInString(other.text))
	}
	return text + strings.Repeat(" ", max(longest-utf8.RuneCountInString(text), 0)) + before + w.description + after
}

// lineKey is the key of the words of a command line that a shell completes, in a context.
type lineKey struct{}

// completer returns the words that can replace current.
type completer func(before []string, current string) *offered

// offer completes a line of the commands of root.
func offer(ctx context.Context, root *cobra.Command, before []string, current string) *offered {
	line := append(slices.Clone(before), current)
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, line...))
	if err := root.ExecuteContext(context.WithValue(ctx, lineKey{}, line)); err != nil {
		return &offered{directive: cobra.ShellCompDirectiveError}
	}
	text, directive := strings.TrimSuffix(b.String(), "\n"), ""
	if i := strings.LastIndex(text, ":"); i >= 0 {
		text, directive = text[:i], text[i+1:]
	}
	n, _ := strconv.Atoi(directive)
	o := &offered{directive: cobra.ShellCompDirective(n)}
	flag, _, isValue := strings.Cut(current, "=")
	seen := make(map[string]bool)
	for line := range strings.Lines(text) {
		word, description, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if isValue && strings.HasPrefix(current, "-") && !strings.HasPrefix(word, "-") {
			word = flag + "=" + word // Cobra returns the value of a flag alone
		}
		if word != "" && strings.HasPrefix(word, current) && !seen[word] && o.directive&offersFiles == 0 {
			o.words = append(o.words, offeredWord{word, description})
		}
		seen[word] = true
	}
	return o
}

// offersFiles are the directives with which Cobra returns extensions or a directory instead of words.
const offersFiles = cobra.ShellCompDirectiveFilterFileExt | cobra.ShellCompDirectiveFilterDirs

// options returns the line with the options.
func (o *offered) options() string {
	var options []string
	for _, option := range []struct {
		set  bool
		name string
	}{
		{o.directive&cobra.ShellCompDirectiveNoSpace != 0, "nospace"},
		{o.directive&(cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveError) != 0, "nofiles"},
		{o.directive&cobra.ShellCompDirectiveFilterDirs != 0, "dirs"},
		{slices.ContainsFunc(o.words, func(w offeredWord) bool { return w.description != "" }), "described"},
	} {
		if option.set {
			options = append(options, option.name)
		}
	}
	return strings.Join(options, " ") + "\n"
}

// offerBash writes what replaces the end of a line. args are the line before the cursor, the end of it that bash
// replaces, and the type of the completion (bash(1), COMP_TYPE).
func offerBash(complete completer, b *strings.Builder, args []string) {
	if len(args) != 3 {
		return
	}
	line, replaced, kind := args[0], args[1], args[2]
	syntax := quoting.Syntax{Getenv: os.Getenv}
	before, current, start, _ := syntax.Cursor(line)
	kept, found := strings.CutSuffix(line[start:], replaced)
	if !found || len(before) == 0 {
		return
	}
	_, keptText, _, quote := syntax.Cursor(kept)
	o := complete(before[1:], current)
	// The rest of a word in quotation marks is not escaped, so it must have no character with a meaning there.
	meaning := map[byte]string{'\'': `'`, '"': "\"$`\\!"}[quote]
	escaped := func(text string) string {
		text = strings.TrimPrefix(text, keptText)
		if quote != 0 {
			return text
		}
		return quoting.Escape(text)
	}
	o.words = slices.DeleteFunc(o.words, func(w offeredWord) bool {
		return !strings.HasPrefix(w.text, keptText) || strings.ContainsAny(strings.TrimPrefix(w.text, keptText),
			meaning)
	})
	const menu, insertAll = "37", "42"
	common := commonPrefix(o.words)
	if len(o.words) > 1 && len(common) > len(current) && kind != menu && kind != insertAll {
		o.words = []offeredWord{{text: common}}
		o.directive |= cobra.ShellCompDirectiveNoSpace
	}
	b.WriteString(o.options())
	for _, w := range o.words {
		text := escaped(w.text)
		if len(o.words) > 1 && kind != menu && kind != insertAll {
			text = w.shown(text, o, "  (", ")")
		}
		b.WriteString(text + "\n")
	}
	if len(o.words) > 1 && kind != menu && kind != insertAll {
		b.WriteString("\n") // has no common beginning with the others, so that bash does not change the line
	}
}

// commonPrefix returns the beginning that all words have.
func commonPrefix(words []offeredWord) string {
	if len(words) == 0 {
		return ""
	}
	common := words[0].text
	for _, w := range words[1:] {
		for !strings.HasPrefix(w.text, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	return common
}

// offerZsh writes words and the texts of a list. args is the line before the cursor.
func offerZsh(complete completer, b *strings.Builder, args []string) {
	offerLine(complete, b, args[0], quoting.Syntax{Getenv: os.Getenv}, func(o *offered, w offeredWord) string {
		return w.text + "\n" + w.shown(w.text, o, "  -- ", "")
	})
}

// offerFish writes words and descriptions. args is the line before the cursor.
func offerFish(complete completer, b *strings.Builder, args []string) {
	o := offerLine(complete, b, args[0], quoting.Syntax{Getenv: os.Getenv, Fish: true},
		func(_ *offered, w offeredWord) string { return w.text + "\t" + w.description })
	if len(o.words) == 1 && o.directive&cobra.ShellCompDirectiveNoSpace != 0 &&
		!strings.ContainsAny(o.words[0].text[len(o.words[0].text)-1:], "@=/:.,") {
		// fish adds a space after the only word, unless it ends with one of these
		b.WriteString(o.words[0].text + ".\n")
	}
}

// offerLine writes the words for the end of a line.
func offerLine(complete completer, b *strings.Builder, line string, syntax quoting.Syntax,
	shown func(*offered, offeredWord) string) *offered {
	before, current, _, _ := syntax.Cursor(line)
	if len(before) == 0 {
		return new(offered)
	}
	o := complete(before[1:], current)
	b.WriteString(o.options())
	for _, w := range o.words {
		b.WriteString(shown(o, w) + "\n")
	}
	return o
}

// offerPowerShell writes words in quotation marks, the texts of a list and descriptions, each in Base64. args is the
// list of the words of the line, each in Base64.
func offerPowerShell(complete completer, b *strings.Builder, args []string) {
	encoded, _ := strings.CutPrefix(args[0], "words:")
	var line []string
	for word := range strings.SplitSeq(encoded, ",") {
		text, err := base64.StdEncoding.DecodeString(word)
		if err != nil {
			return
		}
		line = append(line, string(text))
	}
	o := complete(line[:len(line)-1], line[len(line)-1])
	b.WriteString(o.options())
	for _, w := range o.words {
		if strings.Contains(w.text, `"`) {
			continue // PowerShell before 7.3 does not pass it to a program
		}
		for i, field := range []string{quoting.PowerShell.Quote(w.text), w.text, w.description + " "} {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(base64.StdEncoding.EncodeToString([]byte(field)))
		}
		b.WriteByte('\n')
	}
}

// templatePart is a literal of a URI template and the variable after it, which is empty at the end of the template.
type templatePart struct{ literal, variable string }

// splitTemplate returns the parts of a URI template. It returns the parts before the first expression that is not a
// name alone, such as {?a,b}: those cannot be completed.
func splitTemplate(template string) (parts []templatePart) {
	all, _ := resourceuri.SplitTemplate(template)
	for _, part := range all {
		if len(part.Variables) != 1 || part.Operator != "" ||
			part.Variables[0] != (resourceuri.TemplateVariable{Name: part.Variables[0].Name}) {
			return append(parts, templatePart{literal: part.Literal})
		}
		parts = append(parts, templatePart{part.Literal, part.Variables[0].Name})
	}
	return append(parts, templatePart{})
}

// fill completes the word with the URIs of a template: up to the next variable, or with the values of that variable.
// whole reports whether the URIs are complete.
func (c *completing) fill(template string) (uris []string, whole bool) {
	parts := splitTemplate(template)
	begin, rest := "", c.word
	known := make(map[string]string)
	for i, part := range parts {
		after, matches := strings.CutPrefix(rest, part.literal)
		if !matches {
			if strings.HasPrefix(part.literal, rest) {
				return []string{begin + part.literal}, part.variable == ""
			}
			return nil, false
		}
		begin, rest = begin+part.literal, after
		if part.variable == "" {
			return nil, true
		}
		next := parts[i+1:]
		value, remainder, ended := rest, "", false
		if len(next) > 0 && next[0].literal != "" {
			if value, remainder, ended = strings.Cut(rest, next[0].literal[:1]); ended {
				remainder = next[0].literal[:1] + remainder
			}
		}
		if ended {
			known[part.variable] = unescaped(value)
			begin, rest = begin+value, remainder
			continue
		}
		ref := mcp.CompleteReference{Type: mcp.RefResource, URI: template}
		for _, v := range c.values(ref, part.variable, unescaped(rest), known) {
			uris = append(uris, begin+url.PathEscape(v))
		}
		return uris, len(next) == 1 && next[0] == templatePart{}
	}
	return nil, true
}

// unescaped returns a part of a URI without percent-encoding.
func unescaped(part string) string {
	if text, err := url.PathUnescape(part); err == nil {
		return text
	}
	return part
}
