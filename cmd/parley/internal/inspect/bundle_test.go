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
)

// The bundle is that of the sources. After a change of the sources, run go generate in this directory.
func TestBundleIsFresh(t *testing.T) {
	built := t.TempDir()
	cmd := exec.Command("go", "run", "./web/generate", "-out", built)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	names := func(dir string) (names []string) {
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range found {
			names = append(names, entry.Name())
		}
		return names
	}
	if got, want := names("dist"), names(built); !slices.Equal(got, want) {
		t.Fatalf("dist has the files %q, the sources give %q; run go generate", got, want)
	}
	for _, name := range names(built) {
		if !bytes.Equal(unpacked(t, filepath.Join("dist", name)), unpacked(t, filepath.Join(built, name))) {
			t.Errorf("%s is not that of the sources; run go generate", name)
		}
	}
}

// unpacked returns the contents of a file. Versions of Go can compress them differently.
func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The compiler of TypeScript finds no error in the sources.
func TestSourcesHaveTheRightTypes(t *testing.T) {
	cmd := exec.Command("node_modules/.bin/tsc", "-p", ".")
	cmd.Dir = "web"
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}
