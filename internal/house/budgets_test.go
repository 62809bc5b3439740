package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// compiled has the files that compile schemas without a schema.Budget, and why that is safe. A peer that sends many
// schemas, which a program keeps or reads at once, can use up its memory or time; their memory must count towards the
// schema.Budget of the peer.
var compiled = map[string]string{
	"server/tool.go":                               "schemas of the program",
	"server/link.go":                               "schemas of the program",
	"server/forwardtool.go":                        "the schema of any object",
	"server/elicit.go":                             "one form, while the client is asked",
	"client/inputrequest.go":                       "one form, after the user has answered",
	"cmd/parley/internal/calling/content.go":       "one form, after the user has answered",
	"cmd/parley/internal/inspect/calls.go":         "one form, after the user has answered",
	"cmd/parley/internal/inspect/api.go":           "one schema, which the user looks at",
	"cmd/parley/internal/mock/yaml.go":             "a file of the user",
	"cmd/parley/internal/suite/file.go":            "a file of the user",
	"cmd/parley/internal/serverjson/serverjson.go": "a schema of the program",
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
		if !used[file] {
			t.Errorf("%s does not compile schemas: remove it from the table", file)
		}
	}
}
