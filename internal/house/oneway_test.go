package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// oneWay lists calls that a package makes in only one file, because code that goes around that file would
// skip a rule.
var oneWay = []struct {
	folder, call string
	in           string // the file, or "" if the package does not make the call at all
	instead      string
}{
	{"server", ".changes.Publish", "replicas.go", "Server.publish, which other replicas hear, too"},
	{"server", ".changes.PublishTo", "replicas.go", "Server.publish, which other replicas hear, too"},
	{"server", ".changes.ResyncAll", "replicas.go", "Server.resyncAll"},
	{"mcp", "jsonv2.Marshal", "", "jsonscan.Marshal, which replaces bytes that are not UTF-8"},
	{"internal/revision", "json.Marshal", "classify.go", "jsonscan.Marshal, which replaces bytes that are not UTF-8"},
	{"internal/tasks", "jsonv2.Marshal", "", "jsonscan.Marshal, which replaces bytes that are not UTF-8"},
	{"server", "jsonv2.Marshal", "resource.go", "schema.Marshal, which replaces bytes that are not UTF-8"},
}

func TestSomeCallsAreMadeInOnePlace(t *testing.T) {
	for _, rule := range oneWay {
		files := must.Get(filepath.Glob(filepath.Join("..", "..", rule.folder, "*.go")))(t)
		calls := 0
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f := must.Get(parser.ParseFile(set, name, nil, parser.SkipObjectResolution))(t)
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !strings.HasSuffix("."+dotted(call.Fun), "."+strings.TrimPrefix(rule.call, ".")) {
					return true
				}
				if calls++; path.Base(filepath.ToSlash(name)) != rule.in {
					t.Errorf("%s: call %s", set.Position(n.Pos()), rule.instead)
				}
				return true
			})
		}
		must.CheckThat(t, len(files) != 0 && (calls != 0 || rule.in == ""),
			"%s has no call of %s: the rule is out of date", rule.folder, rule.call)
	}
}

// dotted returns an expression such as a.b.c as text.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return dotted(e.X) + "." + e.Sel.Name
	}
	return ""
}
