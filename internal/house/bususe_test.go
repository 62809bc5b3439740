package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-mcp/parley/internal/must"
)

// busUsers lists the files that may publish on a store.Bus or subscribe to it, and why nothing is lost there. A Bus
// delivers each message at most once, a subscription can end, and the context of a request ends when its client leaves.
// Therefore a publisher does not depend on that context, and a subscriber subscribes again after a pause and also reads
// the state without a message, or the publisher repeats what has failed.
var busUsers = map[string]string{
	"internal/tasks/changes.go":    "changes of tasks: whoever waits reads them at intervals, too",
	"server/replicas.go":           "news for other replicas: an outbox repeats it, and a loss makes the receivers read",
	"internal/rpc/storefailure.go": "passes calls on",

	"client/watch.go": "no Bus: a client subscribes to resources",
	"host/watch.go":   "no Bus: a client subscribes to resources",
	"cmd/parley/internal/serve/endpoint/admin.go": "tries at the start whether Redis permits both",
	"internal/gatewaytest/signals.go":             "test support",
}

func TestTheBusIsUsedWhereNothingIsLost(t *testing.T) {
	tree := os.DirFS(filepath.Join("..", ".."))
	used := make(map[string]bool)
	for _, f := range project(t) {
		if strings.HasSuffix(f.path, "_test.go") || strings.HasPrefix(f.path, "store/") {
			continue
		}
		for _, use := range must.Get(busUses(tree, f.path))(t) {
			used[f.path] = true
			must.CheckThat(t, busUsers[f.path] != "",
				"%s: use tasks.Store.Announce and Watch, or the outboxes of server/replicas.go", use)
		}
	}
	for name := range busUsers {
		must.CheckThat(t, used[name], "%s calls neither Publish nor Subscribe: remove it from the table", name)
	}
}

// busUses returns the positions in a file that call Publish or Subscribe with the arguments of a store.Bus.
func busUses(tree fs.FS, name string) (uses []string, err error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 3 {
			method, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (method.Sel.Name == "Publish" || method.Sel.Name == "Subscribe") {
				uses = append(uses, set.Position(n.Pos()).String()+": "+method.Sel.Name)
			}
		}
		return true
	})
	return uses, nil
}

func TestUsesOfTheBusAreFound(t *testing.T) {
	const source = "package a\n\nfunc f() {\n\tbus.Publish(ctx, topic, nil)\n\tchanges.Publish(change)\n" +
		"\ts.store.Bus.Subscribe(ctx, topic, 1)\n}\n"
	uses, err := busUses(fstest.MapFS{"a.go": {Data: []byte(source)}}, "a.go")
	if got, want := strings.Join(uses, " "), "a.go:4:2: Publish a.go:6:2: Subscribe"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
