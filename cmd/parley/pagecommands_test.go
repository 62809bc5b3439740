package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	linesh "github.com/parley-mcp/parley/cmd/parley/internal/shell"
)

// pageCommand is a command line of parley in a block of a page.
type pageCommand struct {
	line    int
	section int      // the line of the heading before it
	text    string   // with the comment
	words   []string // without parley
}

var (
	shellLanguages = []string{"", "sh", "bash", "shell", "console", "yaml"}
	programName    = `(?:go run \./cmd/parley|(?:\.out/|\./)?parley)`
	startOfParley  = regexp.MustCompile(`^(?:\$ |- run: |script: |[A-Z_]+=\S+ )*` + programName + ` +(.*)$`)
	printed        = regexp.MustCompile(`^printf '([^']*)' \| parley `)
	betweenLines   = regexp.MustCompile(` (?:\|\|?|&&|;) `)
)

// commandLines returns the command lines of parley in the blocks of a page.
func (p *page) commandLines(t *testing.T) (all []pageCommand) {
	for _, b := range p.blocks {
		if !slices.Contains(shellLanguages, b.language) {
			continue
		}
		for i, line := range strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
			for _, part := range betweenLines.Split(strings.TrimSpace(line), -1) {
				m := startOfParley.FindStringSubmatch(part)
				if m == nil {
					continue
				}
				words, err := linesh.Split(m[1])
				if err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line+i, err)
				}
				words = slices.DeleteFunc(words, func(word string) bool {
					return strings.HasPrefix(word, ">") || word == "&"
				})
				section := b.line - 1
				for section > 0 && !heading.MatchString(p.prose[section-1]) {
					section--
				}
				all = append(all, pageCommand{b.line + i, section, line, words})
			}
		}
	}
	return all
}

func TestCommandLinesOfPagesAreValid(t *testing.T) {
	checked := 0
	forPages(t, func(t *testing.T, p *page) {
		for _, c := range p.commandLines(t) {
			checked++
			cmd, rest, err := newRoot().Find(c.words)
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err == nil {
				err = cmd.ValidateRequiredFlags()
			}
			if err != nil && err != pflag.ErrHelp {
				t.Errorf("line %d: %s: %v", c.line, c.text, err)
			}
		}
	})
	if checked < 60 {
		t.Errorf("checked %d command lines", checked)
	}
}

// hasFlag reports whether a command, or one of its subcommands, has a flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	return cmd.LocalFlags().Lookup(name) != nil ||
		slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return hasFlag(c, name) })
}

// A command and a flag in the text exist, too. A word in upper case is a placeholder.
func TestCommandsInTheTextOfPagesExist(t *testing.T) {
	checked, root := 0, newRoot()
	forPages(t, func(t *testing.T, p *page) {
		for _, span := range codeSpan.FindAllString(strings.Join(p.prose, "\n"), -1) {
			words := strings.Fields(strings.Trim(span, "`"))
			switch {
			case len(words) > 1 && words[0] == "parley" && strings.ToUpper(words[1]) != words[1]:
				cmd, rest, err := root.Find(words[1:])
				if err == nil && !cmd.Runnable() || cmd.Parent() == nil {
					err = fmt.Errorf("there is no such command")
				}
				for _, word := range rest {
					if word == "--" {
						break
					}
					flag, isFlag := strings.CutPrefix(word, "--")
					name, _, _ := strings.Cut(flag, "=")
					cmd.InitDefaultHelpFlag()
					if isFlag && cmd.Flag(name) == nil {
						err = fmt.Errorf("the command has no flag --%s", name)
					}
				}
				if err != nil {
					t.Errorf("%s: %v", span, err)
				}
				checked++
			case len(words) > 0 && strings.HasPrefix(words[0], "--") && words[0] != "--":
				if name, _, _ := strings.Cut(words[0][2:], "="); name != "help" && !hasFlag(root, name) {
					t.Errorf("%s: no command has this flag", span)
				}
				checked++
			}
		}
	})
	if checked < 100 {
		t.Errorf("checked %d commands and flags", checked)
	}
}

// runnable are the commands that end by themselves when they have a server.
var runnable = []string{"ls", "call", "read", "prompt", "complete", "ping", "task", "doctor", "whoami", "logout"}

// script returns a script that runs the command lines of a page that need nothing but a demo server, and their number.
func (p *page) script(t *testing.T) (script string, run int) {
	const url = "http://127.0.0.1:7777/mcp"
	var b strings.Builder
	server := "" // the variable with the URL of the running server
	other := -1  // the section with a server that is not a demo server
	serve := func(line int, words []string) {
		server, other = fmt.Sprintf("URL%d", line), -1
		fmt.Fprintf(&b, "start %s %s --addr 127.0.0.1:0\n", server, strings.Join(words, " "))
	}
	var files strings.Builder // sections of the script
	for _, b := range p.blocks {
		if b.language == "json" && strings.Contains(b.text, `"mcpServers"`) {
			fmt.Fprintf(&files, "-- mcp.json --\n%s", b.text)
			break
		}
	}
	for _, c := range p.commandLines(t) {
		text := strings.Join(c.words, " ")
		if input := printed.FindStringSubmatch(c.text); input != nil &&
			strings.HasSuffix(text, " -- parley serve --stdio") {
			fmt.Fprintf(&b, "stdin input%d\nexec parley %s\n", c.line, text)
			fmt.Fprintf(&files, "-- input%d --\n%s", c.line, strings.ReplaceAll(input[1], `\n`, "\n"))
			run++
			continue
		}
		if text == "config schema" || text == "config check mcp.json" || text == "config show mcp.json" {
			fmt.Fprintf(&b, "exec parley %s\n", text)
			run++
			continue
		}
		switch serves := c.words[0] == "up" || c.words[0] == "serve"; {
		case text == "up" || text == "serve --auth dev":
			serve(c.line, c.words)
			run++
			continue
		case serves && !slices.Contains(c.words, "--addr"):
			other = c.section
			continue
		case serves || other == c.section || !strings.Contains(text, url) && text != "whoami":
			continue
		case server == "":
			serve(0, []string{"up"})
		}
		for i, word := range c.words {
			switch word {
			case url:
				c.words[i] = "$" + server
			case "ID":
				c.words[i] = "$TASK"
			default:
				c.words[i] = "'" + strings.ReplaceAll(word, "'", "''") + "'"
			}
		}
		line := strings.Join(c.words, " ")
		switch _, code, fails := strings.Cut(c.text, "# exit code "); {
		case strings.HasPrefix(text, "login "):
			fmt.Fprintf(&b, "background LOGIN%d %s\nbrowse LOGIN%[1]d\nfinish LOGIN%[1]d 0\n", c.line, line)
		case !slices.Contains(runnable, strings.Fields(text)[0]):
			continue
		case fails:
			fmt.Fprintf(&b, "exits %c parley %s\n", code[0], line)
		case strings.HasPrefix(text, "task answer "):
			fmt.Fprintf(&b, "asks TASK $%s\nexec parley %s\n", server, line)
		case strings.HasPrefix(text, "call --task "):
			fmt.Fprintf(&b, "exec parley %s\nid TASK\n", line)
		default:
			fmt.Fprintf(&b, "exec parley %s\n", line)
		}
		run++
	}
	return b.String() + files.String(), run
}

// Command lines with the demo server do what the pages say. "# exit code N" after a command line is its exit code.
func TestCommandLinesOfPagesRun(t *testing.T) {
	dir, run := t.TempDir(), 0
	for _, name := range pageNames(t) {
		if name != "README.md" && !strings.HasPrefix(name, "docs/") {
			continue
		}
		script, n := readPage(t, name).script(t)
		if n == 0 {
			continue
		}
		run += n
		file := strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "/", "-") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if run < 10 {
		t.Errorf("%d command lines of the pages run", run)
	}
	testscript.Run(t, scripts(dir))
}
