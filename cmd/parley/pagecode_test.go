package main

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// goFile is a Go file from which pages quote.
type goFile struct {
	name  string // from the root of the repository
	lines []string
}

// goFiles returns the files whose code is compiled and run by the tests of their directories.
func goFiles(t *testing.T) (files []goFile) {
	t.Helper()
	root := os.DirFS("../..")
	for _, dir := range []string{"docs", "examples", "interop", "otel", "sampler", "store/redisstore"} {
		must.Do(t, fs.WalkDir(root, dir, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata"):
				return fs.SkipDir
			case !strings.HasSuffix(name, ".go"), nested(dir) && !isExample(name):
				return nil
			}
			text, err := fs.ReadFile(root, name)
			files = append(files, goFile{name, strings.Split(string(text), "\n")})
			return err
		}))
	}
	return files
}

// nested reports whether a directory has a module of its own. Pages quote only the examples of such a module.
func nested(dir string) bool { return dir == "otel" || dir == "sampler" || dir == "store/redisstore" }

func isExample(name string) bool {
	return strings.HasSuffix(name, "/example_test.go") || strings.Contains(name, "/examples/")
}

// excerptIn finds the first occurrence of an excerpt after line from. Its lines may be indented further in the file. It
// returns the line after the occurrence, or -1 and how many lines of the excerpt the file has one after another.
func (f *goFile) excerptIn(excerpt []string, from int) (end, found int) {
	for i := from; i < len(f.lines); i++ {
		indent, ok := strings.CutSuffix(f.lines[i], excerpt[0])
		if !ok || strings.TrimLeft(indent, "\t") != "" {
			continue
		}
		n := 1
		for n < len(excerpt) && i+n < len(f.lines) &&
			(f.lines[i+n] == indent+excerpt[n] || excerpt[n] == "" && f.lines[i+n] == "") {
			n++
		}
		if n == len(excerpt) {
			return i + n, n
		}
		found = max(found, n)
	}
	return -1, found
}

// quoted returns how many lines of a block the file has: whole excerpts in the order of the file, which lines with
// "// …" separate.
func (f *goFile) quoted(block []string) (lines int) {
	at := 0
	for len(block) > 0 {
		n := slices.IndexFunc(block, func(line string) bool { return strings.TrimSpace(line) == "// …" })
		if n < 0 {
			n = len(block)
		}
		excerpt := block[:n]
		for len(excerpt) > 0 && excerpt[len(excerpt)-1] == "" {
			excerpt = excerpt[:len(excerpt)-1]
		}
		for len(excerpt) > 0 && excerpt[0] == "" {
			excerpt, lines, n, block = excerpt[1:], lines+1, n-1, block[1:]
		}
		if len(excerpt) > 0 {
			end, found := f.excerptIn(excerpt, at)
			if end < 0 {
				return lines + found
			}
			at = end
		}
		n = min(n+1, len(block))
		lines, block = lines+n, block[n:]
	}
	return lines
}

// Go code of pages is an excerpt of a file whose code is compiled and tested: whole lines of examples, docs or interop,
// or of the examples of a nested module, of which the common indentation may be reduced. A line "// …" stands for lines
// of the file that the page leaves out.
func TestGoOfPagesIsFromPrograms(t *testing.T) {
	files, checked := goFiles(t), 0
	forPages(t, func(t *testing.T, p *page) {
		for _, b := range p.blocks {
			if b.language != "go" {
				continue
			}
			checked++
			lines := strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")
			best, file := -1, ""
			for i := range files {
				if n := files[i].quoted(lines); n > best {
					best, file = n, files[i].name
				}
			}
			switch {
			case best == len(lines):
			case best == 0:
				t.Errorf("%s:%d: no file of docs, examples and interop has %q", p.name, b.line, lines[0])
			default:
				t.Errorf("%s:%d: the code before this line is in %s, but not %q", p.name, b.line+best, file, lines[best])
			}
		}
	})
	must.CheckThat(t, checked >= 2, "checked %d blocks", checked)
}
