package house

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

var update = flag.Bool("update", false, "write the exported API to api/*.txt")

// TestAPIIsRecorded compares the exported API of each public package with its file in api. A deliberate change updates
// the file, so that a review shows every change of the API.
func TestAPIIsRecorded(t *testing.T) {
	root := filepath.Join("..", "..")
	apis := must.Get(readAPIs(os.DirFS(root)))(t)
	must.That(t, len(apis) >= 10, "found %d public packages, want at least 10", len(apis))
	directory := filepath.Join(root, "api")
	if *update {
		must.Do(t, writeAPIs(directory, apis))
	}
	recorded := must.Get(readRecords(directory))(t)
	differences := compareAPIs(recorded, apis)
	for _, difference := range differences {
		t.Error(difference)
	}
	must.CheckThat(t, len(differences) == 0,
		"if the change of the API is intended, run: go test ./internal/house -run API -update")
}

// recordName returns the name of the file in api for a package.
func recordName(dir string) string { return strings.ReplaceAll(dir, "/", "_") + ".txt" }

func writeAPIs(directory string, apis []api) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(directory, "*.txt"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, a := range apis {
		if len(a.lines) == 0 {
			continue
		}
		content := strings.Join(a.lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(directory, recordName(a.dir)), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readRecords returns the lines of each file in api.
func readRecords(directory string) (map[string][]string, error) {
	names, err := filepath.Glob(filepath.Join(directory, "*.txt"))
	records := make(map[string][]string)
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		records[filepath.Base(name)] = strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	}
	return records, err
}

// compareAPIs returns a line for each difference between the records and the API.
func compareAPIs(recorded map[string][]string, apis []api) []string {
	var differences []string
	known := make(map[string]bool)
	for _, a := range apis {
		name := recordName(a.dir)
		known[name] = true
		for _, line := range a.lines {
			if !slices.Contains(recorded[name], line) {
				differences = append(differences, fmt.Sprintf("api/%s: add %s", name, line))
			}
		}
		for _, line := range recorded[name] {
			if !slices.Contains(a.lines, line) {
				differences = append(differences, fmt.Sprintf("api/%s: remove %s", name, line))
			}
		}
	}
	for name := range recorded {
		if !known[name] {
			differences = append(differences, "api/"+name+": its package does not exist")
		}
	}
	return differences
}

// readAPIs returns the API of each public package, sorted by directory. It includes the files of all systems.
func readAPIs(tree fs.FS) ([]api, error) {
	sources := make(map[string][]string)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if dir := parent(name); strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go") &&
			recordsAPI(dir) {
			sources[dir] = append(sources[dir], name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var apis []api
	for dir, files := range sources {
		a, err := newAPI(tree, dir, files)
		if err != nil {
			return nil, err
		}
		apis = append(apis, a)
	}
	slices.SortFunc(apis, func(a, b api) int { return strings.Compare(a.dir, b.dir) })
	return apis, nil
}

// recordsAPI reports whether the API of the package in dir is recorded: whether a program outside the repository may
// want to import it.
func recordsAPI(dir string) bool {
	name, found := entryOf(dir)
	return found && public(dir) && packages[name].kind != top
}
