package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// pathItem is an item of the list in the comment of internal/rpc: functions, and the files that declare them.
var pathItem = regexp.MustCompile(`^ *\d+\. ([\w., ]+) \(([\w/., ]+\.go)\)`)

// wires are the paths of a request in the order of the sentence that counts their functions.
var wires = []string{"HTTP 2026-07-28", "HTTP session", "byte stream 2026-07-28", "byte stream session"}

// The list of functions on the path of a request names functions that exist in the files that it names, and says how
// many they are on each wire.
func TestThePathOfARequestExists(t *testing.T) {
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	file := must.Get(parser.ParseFile(fset, filepath.Join(root, "internal/rpc/doc.go"), nil, parser.ParseComments))(t)
	_, list, found := strings.Cut(file.Doc.Text(), "# The path of a request")
	must.That(t, found, "internal/rpc/doc.go has no path of a request")
	stated, list, found := strings.Cut(list, "\n\nOver HTTP:\n")
	must.That(t, found, "the list does not begin with Over HTTP")
	list = regexp.MustCompile(`\n {4,}`).ReplaceAllString("Over HTTP:\n"+list, " ") // items of several lines
	counts := make([]int, len(wires))
	heading := ""
	for line := range strings.SplitSeq(list, "\n") {
		item := pathItem.FindStringSubmatch(line)
		if item == nil {
			if line != "" {
				heading = line
			}
			continue
		}
		names := strings.Split(item[1], ", ")
		declared := make(map[string]bool)
		for name := range strings.SplitSeq(item[2], ", ") {
			declare(t, fset, filepath.Join(root, name), declared)
		}
		for _, name := range names {
			must.CheckThat(t, declared[name], "%s is not declared in %s", name, item[2])
		}
		for i, wire := range wires {
			if isOn(heading, wire) {
				counts[i] += len(names)
			}
		}
	}
	for i, number := range regexp.MustCompile(`\b\d\d\b`).FindAllString(
		regexp.MustCompile(`\d{4}-\d\d-\d\d`).ReplaceAllString(stated, ""), -1) {
		must.CheckEqual(t, number, strconv.Itoa(counts[i]), "functions, "+wires[i])
	}
}

// isOn reports whether the items below a heading are on a wire.
func isOn(heading, wire string) bool {
	if strings.Contains(heading, "In a session or over a byte stream") {
		return wire != "HTTP 2026-07-28"
	}
	for _, part := range []string{"HTTP", "byte stream", "session", "2026-07-28"} {
		says := strings.Contains(heading, part)
		if says && !strings.Contains(wire, part) {
			return false
		}
	}
	return true
}

// declare adds the functions and methods of a file, methods with and without their type.
func declare(t *testing.T, fset *token.FileSet, name string, to map[string]bool) {
	source := must.Get(os.ReadFile(name))(t)
	for _, d := range must.Get(parser.ParseFile(fset, name, source, 0))(t).Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		to[f.Name.Name] = true
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if pointer, ok := of.(*ast.StarExpr); ok {
				of = pointer.X
			}
			if id, ok := of.(*ast.Ident); ok {
				to[id.Name+"."+f.Name.Name] = true
			}
		}
	}
}
