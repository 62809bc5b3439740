//go:build integration

package inspect

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// The bundle is that of the sources. After a change of the sources, run go generate in this directory.
func TestBundleIsFresh(t *testing.T) {
	built := t.TempDir()
	cmd := exec.Command("go", "run", "./web/generate", "-out", built)
	text, err := cmd.CombinedOutput()
	must.Do(t, err, text)
	names := func(dir string) (names []string) {
		found, err := os.ReadDir(dir)
		must.Do(t, err)
		for _, entry := range found {
			names = append(names, entry.Name())
		}
		return names
	}
	if got, want := names("dist"), names(built); !slices.Equal(got, want) {
		t.Fatalf("dist has the files %q, the sources give %q; run go generate", got, want)
	}
	for _, name := range names(built) {
		must.CheckThat(t, bytes.Equal(unpacked(t, filepath.Join("dist", name)), unpacked(t, filepath.Join(built,
			name))), "%s does not match its sources; run go generate", name)
	}
}

// unpacked returns the contents of a file. Versions of Go can compress them differently.
func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	must.Do(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	must.Do(t, err)
	data, err := io.ReadAll(r)
	must.Do(t, err)
	return data
}

// The compiler of TypeScript finds no error in the sources.
func TestSourcesHaveTheRightTypes(t *testing.T) {
	cmd := exec.Command("node_modules/.bin/tsc", "-p", ".")
	cmd.Dir = "web"
	text, err := cmd.CombinedOutput()
	must.CheckThat(t, err == nil, "%v:\n%s", err, text)
}
