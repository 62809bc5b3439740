package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-mcp/parley/internal/must"
)

// decoders lists the names in encoding/json that decode. They match keys without regard to case and accept
// duplicate keys and invalid UTF-8, so that two programs can read one message differently.
var decoders = map[string]bool{"Unmarshal": true, "NewDecoder": true, "Decoder": true}

// TestPeerDataIsDecodedStrictly finds uses of decoders in the library and in the program. Other packages may use
// decoders.
func TestPeerDataIsDecodedStrictly(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	checked := 0
	for _, f := range project(t) {
		name, _ := entryOf(parent(f.path))
		placed := packages[name]
		if strings.HasSuffix(f.path, "_test.go") || placed.kind == top || placed.kind == specification {
			continue
		}
		checked++
		uses := must.Get(usesOf(tree, f.path, "encoding/json", decoders))(t)
		for _, use := range uses {
			t.Errorf("%s: use github.com/go-json-experiment/json, which decodes strictly", use)
		}
	}
	must.CheckThat(t, checked >= 100, "checked %d files, want at least 100", checked)
}

// usesOf returns the positions in a file that use some names of a package, with the names.
func usesOf(tree fs.FS, name, of string, names map[string]bool) ([]string, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var local string // name of the package in the file
	for _, spec := range f.Imports {
		if target, _ := strconv.Unquote(spec.Path.Value); target == of {
			local = path.Base(target)
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return nil, nil
	}
	var uses []string
	ast.Inspect(f, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok && names[selector.Sel.Name] {
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == local {
				uses = append(uses, set.Position(n.Pos()).String()+": "+local+"."+selector.Sel.Name)
			}
		}
		return true
	})
	return uses, nil
}

func TestDecodersAreFound(t *testing.T) {
	const body = "\n\nfunc f() {\n\tjson.Unmarshal(a, &b)\n\tv1.NewDecoder(r)\n\tjson.Marshal(a)\n}\n"
	for source, want := range map[string]string{
		"package a\n\nimport \"encoding/json\"" + body:                      "a.go:6:2: json.Unmarshal",
		"package a\n\nimport v1 \"encoding/json\"" + body:                   "a.go:7:2: v1.NewDecoder",
		"package a\n\nimport \"github.com/go-json-experiment/json\"" + body: "",
	} {
		uses, err := usesOf(fstest.MapFS{"a.go": {Data: []byte(source)}}, "a.go", "encoding/json", decoders)
		got := strings.Join(uses, " ")
		must.CheckThat(t, err == nil && got == want, "got %q, %v, want %q", got, err, want)
	}
}
