package house

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// TestReleasedAPIIsKept compares the recorded API with the API of the newest release, which scripts/release copies
// to api/released. Programs that compile with a release compile with all later ones (VERSIONING.md).
func TestReleasedAPIIsKept(t *testing.T) {
	directory := filepath.Join("..", "..", "api")
	released := must.Get(readRecords(filepath.Join(directory, "released")))(t)
	recorded := must.Get(readRecords(directory))(t)
	lost, added := missing(released, recorded), newMethods(released, recorded)
	for _, name := range lost {
		t.Error(name)
	}
	if len(lost) > 0 {
		t.Error("a release has these names. Before 1.0.0, a mistake in one can be corrected: remove its line from " +
			"api/released, and say in CHANGELOG.md how programs must change")
	}
	for _, method := range added {
		t.Error(method)
	}
	if len(added) > 0 {
		t.Error("programs that implement a released interface do not compile with a new method: declare another " +
			"interface. If only Parley implements this one and its documentation says so, add the line to api/released")
	}
}

// missing returns the lines of released that recorded lacks, each with its file.
func missing(released, recorded map[string][]string) (lost []string) {
	for _, file := range slices.Sorted(maps.Keys(released)) {
		for _, line := range released[file] {
			if !slices.Contains(recorded[file], line) {
				lost = append(lost, "api/"+file+": "+line)
			}
		}
	}
	return lost
}

// newMethods returns the methods that recorded adds to interfaces in released. An interface with an unexported method
// may grow, because only its own package can implement it.
func newMethods(released, recorded map[string][]string) (added []string) {
	for _, file := range slices.Sorted(maps.Keys(released)) {
		for _, line := range recorded[file] {
			owner, _, found := strings.Cut(line, " interface, ")
			sealed := func(other string) bool {
				method, found := strings.CutPrefix(other, owner+" interface, ")
				return found && !ast.IsExported(method) && !strings.HasPrefix(method, "embedded ")
			}
			if found && slices.Contains(released[file], owner+" interface") && !slices.Contains(released[file], line) &&
				!slices.ContainsFunc(released[file], sealed) {
				added = append(added, "api/"+file+": "+line)
			}
		}
	}
	return added
}

func TestMissingNamesAreThoseOfTheReleaseOnly(t *testing.T) {
	released := map[string][]string{"a.txt": {"func F()", "func G()"}, "gone.txt": {"type T struct"}}
	recorded := map[string][]string{"a.txt": {"func F(int)", "func G()", "func New()"}, "new.txt": {"func F()"}}
	must.CheckEqual(t, strings.Join(missing(released, recorded), "; "), "api/a.txt: func F(); api/gone.txt: type T struct")
	must.CheckEqual(t, len(missing(recorded, recorded)), 0)
}

func TestNewMethodsAreThoseOfReleasedInterfaces(t *testing.T) {
	released := map[string][]string{"a.txt": {"type I interface", "type I interface, F()", "type Sealed interface",
		"type Sealed interface, f()", "type T struct"}}
	recorded := map[string][]string{"a.txt": {"type I interface", "type I interface, F()", "type I interface, G()",
		"type I interface, embedded New", "type New interface", "type New interface, F()", "type Sealed interface",
		"type Sealed interface, G()", "type Sealed interface, f()", "type T struct", "type T struct, F int"}}
	must.CheckEqual(t, strings.Join(newMethods(released, recorded), "; "),
		"api/a.txt: type I interface, G(); api/a.txt: type I interface, embedded New")
}
