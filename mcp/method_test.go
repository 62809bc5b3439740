package mcp_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

func TestMethodConstantsMatchSchemas(t *testing.T) {
	declared := constantsIn(t, "method.go")
	defined := map[string]bool{}
	for _, rev := range append(mcp.Revisions(), spec.Tasks) {
		for _, m := range spec.Methods(rev) {
			defined[m.Name] = true
			prefix := "Method"
			if m.Kind == spec.Notification {
				prefix = "Notification"
			}
			if name, ok := declared[m.Name]; !ok || !strings.HasPrefix(name, prefix) {
				t.Errorf("%s defines the %s %q, which has no %s constant", rev, m.Kind, m.Name, prefix)
			}
		}
	}
	for method, name := range declared {
		if !defined[method] {
			t.Errorf("%s is %q, which is not in any schema", name, method)
		}
	}
}

func TestMetaConstantsIncludeKeysOfSchemas(t *testing.T) {
	declared := constantsIn(t, "meta.go")
	n := 0
	for _, rev := range append(mcp.Revisions(), spec.Tasks) {
		for name, raw := range spec.Definitions(rev) {
			if !strings.HasSuffix(name, "MetaObject") {
				continue
			}
			var definition struct {
				Properties map[string]json.RawMessage `json:"properties"`
			}
			if err := json.Unmarshal(raw, &definition); err != nil {
				t.Fatal(err)
			}
			for key := range definition.Properties {
				n++
				if declared[key] == "" {
					t.Errorf("%s of %s has the key %q, which has no constant", name, rev, key)
				}
			}
		}
	}
	if n == 0 {
		t.Error("the schemas have no keys")
	}
}

func TestEveryRevisionWithSchemaIsKnown(t *testing.T) {
	revisions := mcp.Revisions()
	if !slices.IsSortedFunc(revisions, func(a, b mcp.Revision) int { return -strings.Compare(string(a), string(b)) }) {
		t.Errorf("the revisions are not sorted, latest first: %v", revisions)
	}
	if revisions[0] != mcp.Latest {
		t.Errorf("the latest revision is %s, want %s", revisions[0], mcp.Latest)
	}
	for _, rev := range revisions {
		if len(spec.Schema(rev)) == 0 || !rev.Known() {
			t.Errorf("%s.Known() is false", rev)
		}
		if rev.Modern() != (rev > mcp.LatestLegacy) {
			t.Errorf("%s.Modern() is %t", rev, rev.Modern())
		}
	}
	for _, rev := range []mcp.Revision{"", "2025-11-26", "DRAFT-2026-v1"} {
		if rev.Known() {
			t.Errorf("Revision(%q).Known() is true", rev)
		}
	}
}

func TestLoggingLevelsMatchSchemas(t *testing.T) {
	for _, rev := range mcp.Revisions() {
		var definition struct {
			Enum []mcp.LoggingLevel `json:"enum"`
		}
		if err := json.Unmarshal(spec.Definitions(rev)["LoggingLevel"], &definition); err != nil {
			t.Fatal(err)
		}
		want := slices.Sorted(slices.Values(definition.Enum))
		if got := slices.Sorted(slices.Values(mcp.LoggingLevels())); !slices.Equal(got, want) {
			t.Errorf("levels are %v, want %v", got, want)
		}
	}
}

func TestLevelEnablesEqualAndHigherSeverity(t *testing.T) {
	for _, c := range []struct {
		least, message mcp.LoggingLevel
		want           bool
	}{
		{mcp.LevelWarning, mcp.LevelWarning, true},
		{mcp.LevelWarning, mcp.LevelEmergency, true},
		{mcp.LevelWarning, mcp.LevelNotice, false},
		{mcp.LevelDebug, mcp.LevelDebug, true},
		{mcp.LevelEmergency, mcp.LevelAlert, false},
		{"", mcp.LevelEmergency, false},
		{mcp.LevelDebug, "loud", false},
		{"loud", "loud", false},
	} {
		if got := c.least.Enables(c.message); got != c.want {
			t.Errorf("%q.Enables(%q) = %t", c.least, c.message, got)
		}
	}
}

// constantsIn returns the string constants of a file, as a map from values to names.
func constantsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		if other := constants[value]; other != "" {
			t.Errorf("%s and %s are both %q", other, spec.Names[0].Name, value)
		}
		constants[value] = spec.Names[0].Name
		return true
	})
	return constants
}
