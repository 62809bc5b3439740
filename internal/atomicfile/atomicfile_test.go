package atomicfile

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestTheFileIsReplaced(t *testing.T) {
	for name, write := range map[string]func(string, []byte) error{"Write": Write, "WriteCache": WriteCache} {
		path := filepath.Join(t.TempDir(), "f")
		for _, content := range []string{"first", "second"} {
			must.Do(t, write(path, []byte(content)))
			must.CheckEqual(t, string(must.Get(os.ReadFile(path))(t)), content, name)
		}
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v, want 0600", name, info.Mode(), err)
		}
	}
}

func TestNoTemporaryFileIsLeftAfterAnError(t *testing.T) {
	for name, write := range map[string]func(string, []byte) error{"Write": Write, "WriteCache": WriteCache} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		if err := os.Mkdir(path, 0o700); err != nil { // a file cannot replace a directory
			t.Fatal(err)
		}
		if err := write(path, nil); err == nil {
			t.Fatalf("%s returned no error", name)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: directory has the entries %v, %v, want f only", name, entries, err)
		}
	}
}
