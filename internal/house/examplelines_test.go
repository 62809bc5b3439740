package house

import (
	"go/format"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// TestExamplesStayShort limits the lines of the programs that a new user reads first.
func TestExamplesStayShort(t *testing.T) {
	for _, example := range []struct {
		shows, file string
		limit       int
	}{
		{"typed stdio server", "hello", 17},
		{"HTTP server", "hellohttp", 17},
		{"typed client", "greet", 18},
		{"elicitation", "booking", 23},
		{"progress", "progress", 19},
	} {
		file := filepath.Join("..", "..", "examples", example.file, "main.go")
		source, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		must.CheckEqual(t, string(must.Get(format.Source(source))(t)), string(source), file)
		lines := codeLines(source)
		t.Logf("%s: %d lines", example.shows, lines)
		must.CheckThat(t, lines <= example.limit,
			"%s (%s) is too long: %d lines, the limit is %d", file, example.shows, lines, example.limit)
	}
}

// codeLines counts the lines that contain code. Blank lines and comments do not count, the package clause and imports
// do.
func codeLines(source []byte) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, 0)
	lines := make(map[int]bool)
	for {
		position, kind, text := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue // inserted at the end of a line
		}
		first := file.Line(position)
		for i := range strings.Count(text, "\n") + 1 { // raw strings may span several lines
			lines[first+i] = true
		}
	}
}

func TestCodeLinesAreCounted(t *testing.T) {
	source := "// Command a.\npackage main\n\nimport \"fmt\"\n\n/* one\ntwo */\nfunc main() { // " +
		"prints\n\tfmt.Println(`x\n\ny`)\n}\n"
	must.CheckEqual(t, codeLines([]byte(source)), 7, "lines, want 7")
}
