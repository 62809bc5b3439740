package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// peerNames are the fields with the name and version that a peer declares. A peer can declare any name, so the names
// are for display only.
var peerNames = map[string]bool{"ClientInfo": true, "ServerInfo": true, "Info": true}

// Rule J14: no condition and no comparison uses the name of a peer.
func TestBehaviourDoesNotDependOnPeerNames(t *testing.T) {
	files := 0
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		switch {
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" ||
			base == "node_modules" || base == "cmd"):
			return fs.SkipDir // the program only displays names
		case entry.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path.Join("../..", name))
		if err != nil {
			return err
		}
		files++
		found, err := nameConditions(name, source)
		for _, where := range found {
			t.Errorf("%s: behaviour must not depend on the name of a peer", where)
		}
		return err
	})
	must.That(t, err == nil && files >= 100, "read %d files, want at least 100: %v", files, err)
}

// nameConditions returns the positions of conditions and comparisons that use one of peerNames. A comparison with nil
// is allowed.
func nameConditions(name string, source []byte) ([]string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	look := func(conditions ...ast.Expr) {
		for _, condition := range conditions {
			if condition == nil {
				continue
			}
			ast.Inspect(condition, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BinaryExpr:
					if nothing, ok := n.Y.(*ast.Ident); ok && nothing.Name == "nil" {
						return false
					}
				case *ast.CallExpr:
					if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Info" {
						return false // of a directory entry or a logger
					}
				case *ast.SelectorExpr:
					if peerNames[n.Sel.Name] {
						found = append(found, set.Position(n.Pos()).String())
					}
				}
				return true
			})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			look(n.Cond)
		case *ast.ForStmt:
			look(n.Cond)
		case *ast.SwitchStmt:
			look(n.Tag)
		case *ast.CaseClause:
			look(n.List...)
		case *ast.IndexExpr:
			look(n.Index)
		}
		return true
	})
	return found, nil
}

func TestConditionsOnPeerNamesAreFound(t *testing.T) {
	found, err := nameConditions("x.go", []byte(`package x

func f() {
	if c.Peer.Info.Name == "Claude" { // found
	}
	switch p.ClientInfo.Version { // found
	case "1":
	}
	switch {
	case strings.HasPrefix(r.ServerInfo.Name, "x"): // found
	}
	quirk := quirks[p.Info.Name] // found
	if s.Info == nil || len(names) > 0 {
	}
	if info, err := entry.Info(); err != nil {
	}
	log.Info(p.Info.Name)
}
`))
	must.CheckThat(t, err == nil && strings.Join(found, " ") == "x.go:4:5 x.go:6:9 x.go:10:25 x.go:12:18",
		"%q, %v", found, err)
}
