package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/must"
)

func TestPackagesImportOnlyLowerLayers(t *testing.T) {
	seen := 0
	for _, f := range project(t) {
		if err := checkPlacement(f.path); err != nil {
			t.Error(err)
			continue
		}
		for _, target := range f.imports {
			seen++
			must.Check(t, (imported{f.path, target}).check())
		}
	}
	must.That(t, seen >= 100, "found %d imports, want at least 100", seen)
}

// maxLines limits the lines of a file that is not a test, maxTestLines the lines of a test. Most files have 100
// to 400 lines.
const (
	maxLines     = 500
	maxTestLines = 600
)

func TestFilesReadInOneSitting(t *testing.T) {
	for _, f := range project(t) {
		must.Check(t, f.checkLength())
	}
}

// maxColumns is the limit for a line. A tab has four columns.
const maxColumns = 120

func TestLinesHave120Columns(t *testing.T) {
	for _, f := range project(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue // tables of long strings
		}
		for _, line := range f.long {
			t.Errorf("%s:%d has more than %d columns", f.path, line, maxColumns)
		}
	}
}

func TestLongLinesAreFound(t *testing.T) {
	long := strings.Repeat("x", 110)
	source := "package p\n\n// " + long + "\n// " + long + "yyyyyyyy\nconst a = \"" + long + "\"\nconst b = `" +
		long + "`\n\nvar c = `\n" + long + long + "\n`\n\nfunc f() {\n\t\t\t// " + long + "\n}\n"
	lines := longLines([]byte(source))
	must.CheckEqual(t, fmt.Sprint(lines), "[4 5 13]", lines)
}

func TestNamesSayTheSubject(t *testing.T) {
	for _, f := range project(t) {
		must.Check(t, f.checkName())
	}
}

func TestDocShowsTheTable(t *testing.T) {
	source := must.Get(os.ReadFile("doc.go"))(t)
	doc := regexp.MustCompile(`\n//\t {10}`).ReplaceAll(source, []byte(" ")) // a layer can have several lines
	documented := make(map[string]int)
	for _, match := range regexp.MustCompile(`layer (\d)   (.*)`).FindAllStringSubmatch(string(doc), -1) {
		layer, _ := strconv.Atoi(match[1])
		for name := range strings.SplitSeq(match[2], ", ") {
			documented[name] = layer
		}
	}
	for name, p := range packages {
		if layer, found := documented[name]; p.kind == inLayer && (!found || layer != p.layer) {
			t.Errorf("%s is in layer %d, doc.go has it in layer %d (found: %v)", name, p.layer, layer, found)
		}
		must.CheckThat(t, p.kind == inLayer || strings.Contains(string(doc), path.Base(name)),
			"doc.go does not mention %s", name)
	}
}

// file is the part of a Go file that the rules use.
type file struct {
	path        string // from the root of the project, with slashes
	packageName string
	imports     []string
	lines       int
	long        []int // the lines with more than maxColumns columns
	generated   bool
}

// project reads every Go file of every module in the repository. It ignores build constraints, because the rules apply
// on all systems.
func project(t *testing.T) []file {
	t.Helper()
	root := must.Get(filepath.Abs("../.."))(t)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	must.That(t, err == nil && bytes.HasPrefix(mod, []byte("module "+module+"\n")),
		"%s is not the root of %s: %v", root, module, err)
	files := must.Get(read(os.DirFS(root)))(t)
	return files
}

func read(tree fs.FS) ([]file, error) {
	var files []file
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) ||
				base == "testdata" || base == "node_modules" || base == "vendor" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
			return nil
		}
		f, err := parse(tree, name)
		files = append(files, f)
		return err
	})
	return files, err
}

func parse(tree fs.FS, name string) (file, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return file{}, err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	f := file{
		path:        name,
		packageName: syntax.Name.Name,
		lines:       bytes.Count(source, []byte("\n")),
		generated:   ast.IsGenerated(syntax),
	}
	if !f.generated {
		f.long = longLines(source)
	}
	for _, spec := range syntax.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, fmt.Errorf("%s: %w", name, err)
		}
		f.imports = append(f.imports, target)
	}
	return f, nil
}

// longLines returns the numbers of the lines with more than maxColumns columns. Lines that contain part of a raw
// string do not count: messages, scripts and tags are often easier to read in one piece.
func longLines(source []byte) []int {
	var s scanner.Scanner
	set := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(set, source, nil, 0)
	raw := make(map[int]bool)
	for {
		position, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.STRING && text[0] == '`' {
			first := set.Line(position)
			for i := range strings.Count(text, "\n") + 1 {
				raw[first+i] = true
			}
		}
	}
	var long []int
	for line, text := range strings.Split(string(source), "\n") {
		if utf8.RuneCountInString(text)+3*strings.Count(text, "\t") > maxColumns && !raw[line+1] {
			long = append(long, line+1)
		}
	}
	return long
}

func (f file) checkLength() error {
	limit := maxLines
	if strings.HasSuffix(f.path, "_test.go") {
		limit = maxTestLines
	}
	if f.lines <= limit || f.generated {
		return nil
	}
	return fmt.Errorf("%s is too long: %d lines, the limit is %d; split it by subject", f.path, f.lines, limit)
}

// saysNothing matches names that do not say what the code is for.
var saysNothing = regexp.MustCompile(`util|common|helper|manager|(^|_)impl$|impl$`)

func (f file) checkName() error {
	dir := parent(f.path)
	for _, name := range []string{strings.TrimSuffix(f.packageName, "_test"), path.Base(dir),
		strings.TrimSuffix(path.Base(f.path), ".go")} {
		if word := saysNothing.FindString(name); word != "" {
			return fmt.Errorf("%s: %q does not say what the code is for; use the name of its subject", f.path, word)
		}
	}
	return nil
}
