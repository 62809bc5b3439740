package house

import (
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
	lost := missing(released, must.Get(readRecords(directory))(t))
	for _, name := range lost {
		t.Error(name)
	}
	if len(lost) > 0 {
		t.Error("a release has these names. Before 1.0.0, a mistake in one can be corrected: remove its line from " +
			"api/released, and say in CHANGELOG.md how programs must change")
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

func TestMissingNamesAreThoseOfTheReleaseOnly(t *testing.T) {
	released := map[string][]string{"a.txt": {"func F()", "func G()"}, "gone.txt": {"type T struct"}}
	recorded := map[string][]string{"a.txt": {"func F(int)", "func G()", "func New()"}, "new.txt": {"func F()"}}
	must.CheckEqual(t, strings.Join(missing(released, recorded), "; "), "api/a.txt: func F(); api/gone.txt: type T struct")
	must.CheckEqual(t, len(missing(recorded, recorded)), 0)
}
