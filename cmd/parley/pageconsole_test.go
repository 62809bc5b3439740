package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

var (
	examplePath = regexp.MustCompile(`^\./(?:examples|docs)/([a-z0-9]+)$`)
	localHost   = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// buildExamples builds the programs that pages run with go run into one directory, and returns it.
func buildExamples(t *testing.T, pages []*page) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var programs []string
	for _, p := range pages {
		for _, b := range p.blocks {
			for word := range strings.FieldsSeq(b.text) {
				if b.language == "console" && examplePath.MatchString(word) && !slices.Contains(programs, word) {
					programs = append(programs, word)
				}
			}
		}
	}
	arguments := []string{"build", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)} // links in half the time
	build := exec.Command("go", append(arguments, programs...)...)
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	must.That(t, err == nil, "%v: %v\n%s", build, err, out)
	return dir
}

// withPrograms replaces "go run ./examples/NAME" by the path of the program in dir.
func withPrograms(words []string, dir string) []string {
	for i := 0; i+2 < len(words); i++ {
		if m := examplePath.FindStringSubmatch(words[i+2]); m != nil && words[i] == "go" && words[i+1] == "run" {
			name := filepath.Join(dir, m[1])
			if runtime.GOOS == "windows" {
				name += ".exe"
			}
			words = slices.Replace(words, i, i+3, name)
		}
	}
	return words
}

// The commands of console blocks print what the pages say. "…" stands for any text, and a line "…" for any lines. A command line has variables,
// parley or "go run ./examples/NAME", and arguments. One that ends with & serves HTTP until the end of the page, and its
// address is replaced by a free one. ID stands for the output of the command before.
func TestConsoleOfPagesIsTrue(t *testing.T) {
	var pages []*page
	for _, name := range pageNames(t) {
		p := readPage(t, name)
		if slices.ContainsFunc(p.blocks, func(b block) bool { return b.language == "console" }) {
			pages = append(pages, p)
		}
	}
	dir := buildExamples(t, pages)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			replaced := make(map[string]string) // addresses of the page
			for _, b := range p.blocks {
				if b.language == "console" {
					runConsole(t, p, b, dir, replaced)
				}
			}
		})
	}
}

// runConsole runs the commands of a block.
func runConsole(t *testing.T, p *page, b block, dir string, replaced map[string]string) {
	t.Helper()
	text, last := "\n"+strings.ReplaceAll(b.text, "\\\n", " "), ""
	for i, entry := range strings.Split(text, "\n$ ") {
		if i == 0 {
			if strings.TrimSpace(entry) != "" {
				t.Errorf("%s:%d: a console block must begin with \"$ \"", p.name, b.line)
			}
			continue
		}
		line, want, _ := strings.Cut(entry, "\n")
		for of, by := range replaced {
			line = strings.ReplaceAll(line, of, by)
		}
		words := wordsOf(t, line, p.name)
		background := words[len(words)-1] == "&"
		if background {
			words = words[:len(words)-1]
		}
		env := append(os.Environ(), "PARLEY_CONFIG_DIR="+t.TempDir(), "PARLEY_CACHE_DIR="+t.TempDir(),
			"PARLEY_NO_KEYRING=1", "GORACE=atexit_sleep_ms=0")
		for strings.Contains(words[0], "=") {
			env, words = append(env, words[0]), words[1:]
		}
		address := localHost.FindString(line)
		if background {
			for i := range words {
				words[i] = localHost.ReplaceAllLiteralString(words[i], "127.0.0.1:0")
			}
		}
		for i := range words {
			if words[i] == "ID" {
				words[i] = strings.TrimSpace(last)
			}
		}
		words = withPrograms(words, dir)
		if words[0] != "parley" && filepath.Dir(words[0]) != dir {
			t.Fatalf("%s: a command of a console block must be parley or go run ./examples/NAME: %s", p.name, line)
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		if background {
			cmd = exec.Command(words[0], words[1:]...) // startProgram interrupts it
		}
		cmd.Dir, cmd.Env = "../..", env
		got := ""
		if background {
			got = startProgram(t, `.*127\.0\.0\.1:\d+.*`, cmd)
			replaced[address] = localHost.FindString(got)
		} else {
			out, _ := cmd.CombinedOutput() // the output says whether the command has failed
			got = string(out)
		}
		cancel()
		last = got
		for of, by := range replaced {
			got = strings.ReplaceAll(got, by, of)
		}
		pattern := strings.NewReplacer("\n…", "(?s:\n.*?)?", "…\n", "(?s:.*?\n)?", "…", "(?s:.*?)").
			Replace(regexp.QuoteMeta(strings.TrimSpace(want)))
		must.CheckThat(t, regexp.MustCompile(`^`+pattern+`$`).MatchString(strings.TrimSpace(got)),
			"%s:%d: %s\nprints\n%swant\n%s", p.name, b.line, line, got, want)
	}
}

// A reader who follows the page about the first server has a project that passes its tests and answers.
func TestProjectOfPagesIsBuilt(t *testing.T) {
	p, dir := readPage(t, "docs/guide/server.md"), t.TempDir()
	root := must.Get(filepath.Abs("../.."))(t)
	i := slices.IndexFunc(p.blocks, func(b block) bool { return b.language == "sh" })
	must.That(t, i >= 0, "%s has no block of sh", p.name)
	_, lines, _ := strings.Cut(p.blocks[i].text, "./cmd/parley)\n")
	output := ""
	for line := range strings.Lines(strings.ReplaceAll(lines, "--checkout parley", "--checkout "+filepath.ToSlash(root))) {
		words := wordsOf(t, strings.TrimSpace(line))
		if words[0] == "cd" {
			dir = filepath.Join(dir, words[1])
			continue
		}
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "PARLEY_CONFIG_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		must.Do(t, err, line, string(out))
		output = string(out)
	}
	must.CheckEqual(t, output, "Hello, Ada!\n", "the last line of the block")
}
