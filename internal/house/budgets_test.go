package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// compiled lists the files that compile schemas without a schema.Budget, and why that is safe. A peer that sends many
// schemas, which a program keeps or reads at once, can use up its memory or time; their memory must count towards the
// schema.Budget of the peer.
var compiled = map[string]string{
	"server/tool.go":                           "schemas of the program",
	"server/forwardtool.go":                    "the schema of any object",
	"server/elicit.go":                         "one form, while the client is asked",
	"internal/forms/forms.go":                  "one form, which a user answers",
	"cmd/parley/internal/use/content.go":       "one form, after the user has answered",
	"cmd/parley/internal/inspect/calls.go":     "one form, after the user has answered",
	"cmd/parley/internal/inspect/api.go":       "one schema, which the user looks at",
	"cmd/parley/internal/traffic/mock/yaml.go": "a file of the user",
	"cmd/parley/internal/check/suite/file.go":  "a file of the user",
}

func TestSchemasOfPeersCountTowardsABudget(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	used := make(map[string]bool)
	for _, f := range project(t) {
		name, _ := entryOf(parent(f.path))
		placed := packages[name]
		if strings.HasSuffix(f.path, "_test.go") || placed.kind == top || placed.kind == specification ||
			strings.HasPrefix(f.path, "schema/") {
			continue
		}
		uses := must.Get(usesOf(tree, f.path, module+"/schema", map[string]bool{"Compile": true}))(t)
		if used[f.path] = len(uses) > 0; used[f.path] && compiled[f.path] == "" {
			t.Errorf("%s: use schema.Budget.Compile for schemas of a peer; add the file to the table if one schema"+
				" at a time is compiled", uses[0])
		}
	}
	for file := range compiled {
		must.CheckThat(t, used[file], "%s does not compile schemas: remove it from the table", file)
	}
}

// The fields in package toolargs that hold parts of a schema. Loops use the package's iterators instead, which take
// from the budget for each element.
var budgeted = []string{"all", "branches", "names", "byName", "elements"}

// A tool of a peer can have thousands of properties, and a nested loop over them takes seconds.
func TestLoopsOverSchemasOfPeersTakeFromABudget(t *testing.T) {
	const dir = "cmd/parley/internal/use/toolargs"
	tree := os.DirFS(filepath.Join("..", ".."))
	loops := func(name string, source any) (found []string) {
		set := token.NewFileSet()
		f := must.Get(parser.ParseFile(set, name, source, parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			if loop, ok := n.(*ast.RangeStmt); ok {
				if of, ok := loop.X.(*ast.SelectorExpr); ok && slices.Contains(budgeted, of.Sel.Name) {
					found = append(found, set.Position(n.Pos()).String())
				}
			}
			return true
		})
		return found
	}
	must.That(t, loops("a.go", "package a\n\nfunc f() {\n\tfor range n.branches {\n\t}\n}\n") != nil,
		"loops are not found")
	checked := 0
	for _, f := range project(t) {
		// value.go contains the iterators, and toolargs.go reads what the user has written.
		if parent(f.path) != dir || strings.HasSuffix(f.path, "_test.go") || f.path == dir+"/value.go" {
			continue
		}
		checked++
		for _, at := range loops(filepath.Join("..", "..", f.path), nil) {
			t.Errorf("%s: loop over an iterator that takes from the budget", at)
		}
		if f.path == dir+"/toolargs.go" {
			continue
		}
		reads := map[string]bool{"All": true, "Get": true, "Decode": true}
		for _, of := range []string{module + "/jsonrpc", module + "/schema"} {
			for _, use := range must.Get(usesOf(tree, f.path, of, reads))(t) {
				t.Errorf("%s: read schemas with the methods of value, which take from the budget", use)
			}
		}
	}
	must.CheckThat(t, checked >= 3, "checked %d files", checked)
}
