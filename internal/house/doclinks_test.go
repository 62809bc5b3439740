package house

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

var (
	// unresolved matches text that looks like a doc link: package comment leaves it as text only if it cannot
	// resolve it.
	unresolved = regexp.MustCompile(`\[\*?((?:[a-z]\w*\.)?[A-Z]\w*(?:\.[A-Z]\w*)?)\](?:\W|$)`)
	// sourceFile matches the name of a Go file in a comment.
	sourceFile = regexp.MustCompile(`(?:^|[\s(])([\w/-]+\.go)(?:[\s,;:)]|\.\s|\.?$)`)
)

// Each [Name] in a comment of a declaration is the name of a symbol, and each file that a package comment names
// exists: in the folder of the package or, if the name contains folders, below the root.
func TestDocLinksResolve(t *testing.T) {
	root := filepath.Join("..", "..")
	sources := make(map[string][]*ast.File)
	fset := token.NewFileSet()
	for _, f := range project(t) {
		if !strings.HasSuffix(f.path, "_test.go") && !strings.HasPrefix(f.path, "examples/") {
			parsed := must.Get(parser.ParseFile(fset, filepath.Join(root, f.path), nil, parser.ParseComments))(t)
			sources[parent(f.path)] = append(sources[parent(f.path)], parsed)
		}
	}
	documented := make(map[string]*doc.Package)
	for dir, files := range sources {
		path := strings.TrimSuffix(module+"/"+dir, "/.")
		documented[path] = must.Get(doc.NewFromFiles(fset, files, path, doc.AllDecls|doc.PreserveAST))(t)
	}
	for path, p := range documented {
		checkDocLinks(t, p, documented)
		dir := filepath.Join(root, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
		for _, name := range sourceFile.FindAllStringSubmatch(p.Doc, -1) {
			from := dir
			if strings.Contains(name[1], "/") {
				from = root
			}
			if _, err := os.Stat(filepath.Join(from, name[1])); err != nil {
				t.Errorf("the comment of package %s names %s: %v", path, name[1], err)
			}
		}
	}
}

// mapped are the packages whose doc.go has, after the package clause, a map: which rule is in which file. Go doc does not
// print it.
var mapped = []string{
	"auth", "auth/jwt", "auth/oauth", "auth/oauth/browser", "auth/oauth/callers", "call", "client", "gateway", "host",
	"internal/changes", "internal/dial/httpclient", "internal/dial/legacy", "internal/dial/modern", "internal/outbound",
	"internal/rpc", "internal/serve/httpserver", "internal/serve/legacy", "internal/serve/modern",
	"internal/serve/streamserver", "internal/tasks", "server", "transport",
}

// A map names each file of its package, except for generated ones and those of some systems, and the files that it
// names exist.
func TestMapsNameEveryFile(t *testing.T) {
	root := filepath.Join("..", "..")
	maps := make(map[string]string)
	for _, dir := range mapped {
		maps[dir] = string(must.Get(os.ReadFile(filepath.Join(root, dir, "doc.go")))(t))
		for _, name := range sourceFile.FindAllStringSubmatch(maps[dir], -1) {
			from := filepath.Join(root, dir)
			if strings.Contains(name[1], "/") {
				from = root
			}
			_, err := os.Stat(filepath.Join(from, name[1]))
			must.CheckThat(t, err == nil, "%s/doc.go names %s, which does not exist: correct the map", dir, name[1])
		}
	}
	for _, f := range project(t) {
		text, ok := maps[parent(f.path)]
		name := filepath.Base(f.path)
		if ok && !f.generated && name != "doc.go" && !strings.HasSuffix(name, "_test.go") &&
			!isOfSomeSystems(t, filepath.Join(root, f.path)) && !mapNames(text, name) {
			t.Errorf("%s/doc.go does not name %s: add to its map, in a few words, which rules the file decides",
				parent(f.path), name)
		}
	}
}

// mapNames reports whether a text names a file of its own package.
func mapNames(text, name string) bool {
	return regexp.MustCompile(`(?:^|[^\w/.-])` + regexp.QuoteMeta(name) + `\b`).MatchString(text)
}

func TestMapNamesOnlyFilesOfItsPackage(t *testing.T) {
	for text, want := range map[string]bool{
		"//   - link.go: the connection": true, "// (link.go)": true, "// a.go, link.go.": true,
		"// client/link.go: elsewhere": false, "// uplink.go": false, "// link.gone": false, "": false,
	} {
		must.CheckThat(t, mapNames(text, "link.go") == want, "%q", text)
	}
}

// isOfSomeSystems reports whether a file has a build constraint, in its text or in its name.
func isOfSomeSystems(t *testing.T, path string) bool {
	source := must.Get(os.ReadFile(path))(t)
	return strings.Contains("\n"+string(source), "\n//go:build ") ||
		regexp.MustCompile(`_(linux|darwin|windows|unix|bsd|other)\.go$`).MatchString(path)
}

// checkDocLinks checks the links of a package.
func checkDocLinks(t *testing.T, p *doc.Package, all map[string]*doc.Package) {
	parser := p.Parser()
	check := func(where, text string) {
		walkText(parser.Parse(text).Content, func(text comment.Text) {
			switch text := text.(type) {
			case comment.Plain:
				for _, link := range unresolved.FindAllStringSubmatch(string(text), -1) {
					t.Errorf("%s: %s links [%s], which is no symbol", p.ImportPath, where, link[1])
				}
			case *comment.DocLink:
				if to := all[text.ImportPath]; to != nil && text.Name != "" && !to.Parser().LookupSym(text.Recv, text.Name) {
					t.Errorf("%s: %s links [%s.%s %s], which is no symbol", p.ImportPath, where, text.ImportPath,
						text.Recv, text.Name)
				}
			}
		})
	}
	check("the package", p.Doc)
	values := func(all []*doc.Value) {
		for _, v := range all {
			check(strings.Join(v.Names, ", "), v.Doc)
		}
	}
	functions := func(all []*doc.Func) {
		for _, f := range all {
			check(f.Name, f.Doc)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		check(typ.Name, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
		ast.Inspect(typ.Decl, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && len(f.Names) > 0 {
				check(typ.Name+"."+f.Names[0].Name, f.Doc.Text())
			}
			return true
		})
	}
}

// walkText calls f for the texts of blocks.
func walkText(blocks []comment.Block, f func(comment.Text)) {
	for _, b := range blocks {
		var text []comment.Text
		switch b := b.(type) {
		case *comment.Paragraph:
			text = b.Text
		case *comment.Heading:
			text = b.Text
		case *comment.List:
			for _, item := range b.Items {
				walkText(item.Content, f)
			}
		}
		for _, t := range text {
			f(t)
		}
	}
}
