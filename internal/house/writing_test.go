package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-mcp/parley/internal/must"
)

// writes lists, for each file, the functions that it may call to write files, with the reason. All other code changes
// files with atomicfile.Update, which holds the lock of the file, replaces the file as a whole, and loses no change of
// another program. The configuration files and the lock file are written only that way, with jsonedit.File.Save and
// lock.Update.
var writes = map[string]string{
	"internal/atomicfile/atomicfile.go: os.CreateTemp": "Update and Write themselves",
	"internal/atomicfile/atomicfile.go: os.Rename":     "Update and Write themselves",
	"internal/atomicfile/lock.go: os.OpenFile":         "the lock itself",

	"auth/oauth/tokenstore/file.go: atomicfile.Write":                    "the File holds its lock",
	"cmd/parley/internal/login/credstore/credstore.go: atomicfile.Write": "a new key, under the lock of the store",
	"cmd/parley/internal/use/listing/listing.go: atomicfile.WriteCache":  "a cache",
	"cmd/parley/internal/serve/audit.go: os.OpenFile":                    "appends to the audit log",
	"cmd/parley/internal/check/test.go: os.Create":                       "a report, which may be a pipe",
	"cmd/parley/internal/traffic/recording/recording.go: os.OpenFile":    "a new file, which grows",
	"cmd/parley/internal/use/savedir.go: OpenFile":                       "a new file",
	"cmd/parley/internal/use/skillinstall.go: Rename":                    "that directory, when it is complete",
	"cmd/parley/internal/inspect/web/generate/main.go: os.WriteFile":     "a part of the build",
	"auth/oauth/browser/open.go: os.WriteFile":                           "a page in a new temporary directory",
	"cmd/parley/internal/scaffold/new.go: os.WriteFile":                  "files of a new project, in an empty folder",
	"server/files.go: OpenFile":                                          "reads",
	"internal/ledger/journal.go: os.OpenFile":                            "for tests",
	"internal/ledger/ledger.go: os.OpenFile":                             "for tests",
}

// writers lists functions that write files: functions of packages os and atomicfile, and methods that only *os.Root
// has.
var (
	writersOfOS   = []string{"Create", "CreateTemp", "OpenFile", "Rename", "Truncate", "WriteFile"}
	writersOfAtom = []string{"Write", "WriteCache"}
	writersOfRoot = []string{"OpenFile", "Rename", "WriteFile"}
)

func TestFilesAreWrittenUnderALockAndAsAWhole(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	unused := maps.Clone(writes)
	checked := 0
	for _, f := range project(t) {
		name, _ := entryOf(parent(f.path))
		if kind := packages[name].kind; strings.HasSuffix(f.path, "_test.go") || kind == top || kind == specification {
			continue
		}
		checked++
		for _, use := range must.Get(fileWrites(tree, f.path))(t) {
			_, known := writes[use]
			must.CheckThat(t, known, "%s: use atomicfile.Update, or add the reason to the table", use)
			delete(unused, use)
		}
	}
	for _, use := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s is in the table, and not in the file", use)
	}
	must.CheckThat(t, checked >= 100, "checked %d files, want at least 100", checked)
}

// fileWrites returns the functions that write files in a Go file, each as "FILE: NAME".
func fileWrites(tree fs.FS, name string) (uses []string, err error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imported := make(map[string]string) // packages, by their names in the file
	for _, spec := range f.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		local := target[strings.LastIndexByte(target, '/')+1:]
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = target
	}
	called := make(map[*ast.SelectorExpr]bool) // a parent comes before its children
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if selector, ok := c.Fun.(*ast.SelectorExpr); ok {
				called[selector] = true
			}
		}
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		target, isPackage := "", false
		if x, ok := selector.X.(*ast.Ident); ok {
			target, isPackage = imported[x.Name]
		}
		function := selector.Sel.Name
		switch {
		case target == "os" && slices.Contains(writersOfOS, function):
			uses = append(uses, fmt.Sprintf("%s: os.%s", name, function))
		case target == module+"/internal/atomicfile" && slices.Contains(writersOfAtom, function):
			uses = append(uses, fmt.Sprintf("%s: atomicfile.%s", name, function))
		case !isPackage && called[selector] && slices.Contains(writersOfRoot, function):
			uses = append(uses, fmt.Sprintf("%s: %s", name, function))
		}
		return true
	})
	return uses, nil
}

func TestWritesOfFilesAreFound(t *testing.T) {
	const body = "\n\nfunc f() {\n\tos.WriteFile(a)\n\tgo o.Create(a)\n\tdefer o.ReadFile(a)\n\troot.OpenFile(a)\n" +
		"\tf := atomicfile.Write\n\tatomicfile.Update(a)\n\tx.Create(a)\n\tx.Rename[a] = b\n}\n"
	const atomic = "import \"" + module + "/internal/atomicfile\""
	for source, want := range map[string]string{
		"package a\n\nimport \"os\"" + body:                 "a.go: os.WriteFile a.go: OpenFile",
		"package a\n\nimport o \"os\"" + body:               "a.go: WriteFile a.go: os.Create a.go: OpenFile",
		"package a\n\nimport os \"a/os\"\n" + atomic + body: "a.go: OpenFile a.go: atomicfile.Write",
	} {
		uses, err := fileWrites(fstest.MapFS{"a.go": {Data: []byte(source)}}, "a.go")
		got := strings.Join(uses, " ")
		must.CheckThat(t, err == nil && got == want, "got %q, %v, want %q", got, err, want)
	}
}
