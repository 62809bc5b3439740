package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/suite"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/mock"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

// page is a page of the documentation. Its blocks are code, and its prose is everything else.
type page struct {
	name   string // from the root of the repository, with slashes
	lines  []string
	prose  []string // the lines; those of blocks are empty
	blocks []block
}

// block is a block of code: indented, with language "", or between fences.
type block struct {
	language, text string
	line           int // of its first line
}

var fence = regexp.MustCompile("^ *(?:```|~~~)(.*)$")

// readPage returns the page with a name from the root of the repository.
func readPage(t *testing.T, name string) *page {
	t.Helper()
	_ = os.Getenv("PAGES") // a checksum from the Makefile: if it differs, the cached result of the test does not count
	text, err := os.ReadFile(filepath.Join("../..", name))
	must.Do(t, err)
	p := &page{name: name, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
	p.prose = slices.Clone(p.lines)
	for i := 0; i < len(p.lines); i++ {
		begin, indent := i, ""
		b := block{line: i + 1}
		switch opening := fence.FindStringSubmatch(p.lines[i]); {
		case opening != nil:
			b.language, b.line = strings.TrimSpace(opening[1]), i+2
			for i++; i < len(p.lines) && !fence.MatchString(p.lines[i]); i++ {
				b.text += p.lines[i] + "\n"
			}
			must.That(t, i != len(p.lines), "%s:%d: code fence is not closed", name, begin+1)
		case strings.HasPrefix(p.lines[i], "    ") && p.lines[i-1] == "":
			for indent = "    "; i < len(p.lines) && (p.lines[i] == "" || strings.HasPrefix(p.lines[i], indent)); i++ {
				b.text += strings.TrimPrefix(p.lines[i], indent) + "\n"
			}
			i--
		default:
			continue
		}
		clear(p.prose[begin : i+1])
		p.blocks = append(p.blocks, b)
	}
	return p
}

// pageNames returns the names of all pages of the repository.
func pageNames(t *testing.T) (names []string) {
	t.Helper()
	root := os.DirFS("../..")
	if err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(base, ".") && name != "." || base == "node_modules" ||
			base == "testdata"):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			names = append(names, name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	must.That(t, len(names) >= 15 && slices.Contains(names, "README.md") &&
		slices.Contains(names, "docs/program/policy.md"), "pages %q", names)
	return names
}

// forPages runs a test for each page that a user of the program reads: README.md, those in docs, and the one about the
// production example.
func forPages(t *testing.T, test func(t *testing.T, p *page)) {
	for _, name := range pageNames(t) {
		if name == "README.md" || strings.HasPrefix(name, "docs/") || name == "deploy/kubernetes/README.md" {
			t.Run(name, func(t *testing.T) { test(t, readPage(t, name)) })
		}
	}
}

var (
	heading  = regexp.MustCompile(`^(#{1,6}) (.+)$`)
	codeSpan = regexp.MustCompile("`[^`]+`")
	mdLink   = regexp.MustCompile(`\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)`)
	otherRef = regexp.MustCompile(`^\[[^\]]+\]: +(\S+)|(?:src|srcset|href)="([^"]*)"`)
	testName = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+`)
)

// slug returns the fragment with which a link refers to a heading.
func slug(heading string) string {
	text := mdLink.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// slugs returns the fragments of the headings of a page.
func (p *page) slugs() (all []string) {
	for _, line := range p.prose {
		if h := heading.FindStringSubmatch(line); h != nil {
			all = append(all, slug(h[2]))
		}
	}
	return all
}

func TestHeadingsOfPagesAreUnique(t *testing.T) {
	for _, name := range pageNames(t) {
		if name == "CHANGELOG.md" {
			continue // each release has the same headings
		}
		p := readPage(t, name)
		seen, level := make(map[string]bool), 0
		for i, line := range p.prose {
			h := heading.FindStringSubmatch(line)
			if h == nil {
				continue
			}
			if s := slug(h[2]); seen[s] {
				t.Errorf("%s:%d: two headings are #%s", name, i+1, s)
			} else {
				seen[s] = true
			}
			if n := len(h[1]); n > level+1 || n == 1 && level > 0 {
				t.Errorf("%s:%d: a heading of level %d must not follow one of level %d", name, i+1, n, level)
			} else {
				level = n
			}
		}
		must.CheckThat(t, level != 0, "%s has no heading", name)
	}
}

// Links that leave the repository are not requested. A link to a test has the name of the test as its text.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	checked := 0
	for _, name := range append(pageNames(t), "docs/llms.txt") {
		p := readPage(t, name)
		text := codeSpan.ReplaceAllStringFunc(strings.Join(p.prose, "\n"), func(span string) string {
			return strings.NewReplacer("](", "", "<", "").Replace(span)
		})
		type reference struct{ text, to string }
		var all []reference
		for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
			all = append(all, reference{m[1], m[2]})
		}
		for line := range strings.SplitSeq(text, "\n") {
			for _, m := range otherRef.FindAllStringSubmatch(line, -1) {
				all = append(all, reference{"", m[1] + m[2]})
			}
		}
		for _, r := range all {
			checked++
			must.Check(t, checkLink(t, p, r.text, r.to), name, r.to)
		}
	}
	must.CheckThat(t, checked >= 60, "checked %d links", checked)
}

// checkLink returns the reason why a link of a page does not lead to a file, heading or test.
func checkLink(t *testing.T, p *page, text, to string) error {
	u, err := url.Parse(to)
	if err != nil || u.Scheme == "https" || u.Scheme == "http" && u.Hostname() == "127.0.0.1" || u.Scheme == "mailto" {
		return err
	}
	if u.Scheme != "" || u.Host != "" || u.RawQuery != "" || path.IsAbs(u.Path) {
		return fmt.Errorf("must be an https URL or a relative path")
	}
	name := p.name
	if u.Path != "" {
		name = path.Join(path.Dir(p.name), u.Path)
	}
	info, err := os.Stat(filepath.Join("../..", name))
	if err != nil {
		return err
	}
	if u.Fragment != "" && (path.Ext(name) != ".md" || !slices.Contains(readPage(t, name).slugs(), u.Fragment)) {
		return fmt.Errorf("%s has no heading #%s", name, u.Fragment)
	}
	for _, test := range testName.FindAllString(text, -1) {
		if !declares(t, name, info.IsDir(), test) {
			return fmt.Errorf("%s has no test %s", name, test)
		}
	}
	return nil
}

// declares reports whether a file, or a file in a directory, declares a test.
func declares(t *testing.T, name string, isDir bool, test string) bool {
	names := []string{filepath.Join("../..", name)}
	if isDir {
		names, _ = filepath.Glob(filepath.Join("../..", name, "*_test.go"))
	}
	return slices.ContainsFunc(names, func(name string) bool {
		source, err := os.ReadFile(name)
		must.Check(t, err)
		return strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)")
	})
}

// A page has at most 120 lines and 800 words, so that people read it. Only the words of troubleshooting.md are not
// counted, because readers search it for the text of an error. A line has at most 120 columns, except in tables and for
// a word, such as a URL, that does not fit.
func TestPagesAreShort(t *testing.T) {
	limits := map[string]int{"README.md": 90, "CHANGELOG.md": 60}
	pages := 0
	for _, name := range pageNames(t) {
		p, limit := readPage(t, name), limits[name]
		if strings.HasPrefix(name, "docs/") {
			pages++
			limit = 120
			n := len(strings.Fields(strings.Join(p.lines, "\n")))
			searched := path.Base(name) == "troubleshooting.md"
			must.CheckThat(t, n <= 800 || searched, "%s: %d words, at most 800", name, n)
		}
		if limit > 0 && len(p.lines) > limit {
			t.Errorf("%s: %d lines, at most %d", name, len(p.lines), limit)
		}
		if limit == 0 && !strings.HasPrefix(name, "docs/") {
			continue
		}
		for i, line := range p.lines {
			unbreakable := slices.ContainsFunc(strings.Fields(line), func(word string) bool { return len(word) > 80 })
			if n := len([]rune(line)); n > 120 && !strings.HasPrefix(line, "|") && !unbreakable {
				t.Errorf("%s:%d: %d columns, at most 120", name, i+1, n)
			}
		}
	}
	must.CheckThat(t, pages <= 35, "%d pages and an index, at most 34", pages-1)
}

// Blocks of JSON are valid. If they have members of a configuration file, they are one, without problems and warnings.
func TestConfigurationOfPagesIsValid(t *testing.T) {
	compiled, err := schema.Compile(config.Schema)
	must.Do(t, err)
	checked := 0
	forPages(t, func(t *testing.T, p *page) {
		for _, b := range p.blocks {
			if b.language != "json" && b.language != "jsonc" {
				continue
			}
			standard, err := hujson.Standardize([]byte(b.text))
			if err != nil {
				t.Errorf("line %d: %v", b.line, err)
				continue
			}
			var members map[string]any
			_ = json.Unmarshal(standard, &members)
			if !slices.ContainsFunc([]string{"mcpServers", "policy", "hooks", "toolsets"}, func(name string) bool {
				return members[name] != nil
			}) {
				continue
			}
			checked++
			if err := compiled.Validate(standard); err != nil {
				t.Errorf("line %d: %v", b.line, err)
			}
			file := filepath.Join(t.TempDir(), "mcp.json")
			must.Do(t, os.WriteFile(file, []byte(b.text), 0o600))
			var found struct{ Problems, Warnings []string }
			var output, errors strings.Builder
			cmd := newRoot()
			cmd.SetArgs([]string{"config", "check", "-o", "json", file})
			cmd.SetOut(&output)
			cmd.SetErr(&errors)
			err = cmd.Execute()
			invalid := json.Unmarshal([]byte(output.String()), &found) != nil || err != nil
			must.CheckThat(t, !invalid && len(found.Problems)+len(found.Warnings) == 0,
				"line %d: %v\n%s%s", b.line, err, &output, &errors)
		}
	})
	must.CheckThat(t, checked >= 10, "checked %d configurations", checked)
}

// Blocks of YAML are tests, servers to mock, or a part of one: a list of responses.
func TestYAMLOfPagesIsValid(t *testing.T) {
	checked := 0
	forPages(t, func(t *testing.T, p *page) {
		for _, b := range p.blocks {
			text, err := b.text, error(nil)
			if strings.HasPrefix(text, "      - steps:") {
				text = "tools:\n  - name: a\n    responses:\n" + text
			}
			file := filepath.Join(t.TempDir(), "file.yaml")
			must.Do(t, os.WriteFile(file, []byte(text), 0o600))
			switch {
			case b.language != "yaml":
				continue
			case strings.Contains(text, "tests:"):
				_, err = suite.Read(file, func(string) (string, bool) { return "8080", true })
			case strings.Contains(text, "tools:"), strings.Contains(text, "requests:"):
				_, err = mock.Load(file, slog.New(slog.DiscardHandler))
			default:
				var value any
				err = yaml.Unmarshal([]byte(text), &value)
			}
			must.CheckThat(t, err == nil, "line %d: %v", b.line, err)
			checked++
		}
	})
	must.CheckThat(t, checked >= 5, "checked %d blocks", checked)
}

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
				words := wordsOf(t, m[1], p.name, b.line+i)
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
			must.CheckThat(t, err == nil || err == pflag.ErrHelp, "line %d: %s: %v", c.line, c.text, err)
		}
	})
	must.CheckThat(t, checked >= 60, "checked %d command lines", checked)
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
				must.Check(t, err, span)
				checked++
			case len(words) > 0 && strings.HasPrefix(words[0], "--") && words[0] != "--":
				name, _, _ := strings.Cut(words[0][2:], "=")
				must.CheckThat(t, name == "help" || hasFlag(root, name), "%s: no command has this flag", span)
				checked++
			}
		}
	})
	must.CheckThat(t, checked >= 100, "checked %d commands and flags", checked)
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
		must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(script), 0o600))
	}
	must.CheckThat(t, run >= 10, "%d command lines of the pages run", run)
	testscript.Run(t, scripts(dir))
}

// wordsOf returns the words of a command line of a page.
func wordsOf(t *testing.T, line string, about ...any) []string {
	t.Helper()
	words, last, start, quote := quoting.Syntax{}.Cursor(line)
	must.Equal(t, quote, 0, append(about, line)...)
	if start < len(line) {
		words = append(words, last)
	}
	return words
}
