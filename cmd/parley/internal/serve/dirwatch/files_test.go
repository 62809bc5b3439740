package dirwatch_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/internal/must"
)

// put writes a file of a directory, which it makes.
func put(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func reported(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(20 * time.Second):
		t.Fatal("the change is not reported")
	}
}

// Another file of the directory changes all the time.
func TestChangeIsReportedInABusyDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.json")
	put(t, path, "{}")
	changed := must.Get(dirwatch.Files(t.Context(), []string{path}, dirwatch.StateOf(path)))(t)
	put(t, path, "{ }")
	limit := time.After(20 * time.Second)
	for n := 0; ; n++ {
		select {
		case <-changed:
			return
		case <-limit:
			t.Fatal("the change is not reported")
		default:
			put(t, filepath.Join(dir, "other"), strconv.Itoa(n))
		}
	}
}

// A program reads its files, and watches them some time later.
func TestChangeBeforeTheFilesAreWatchedIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	for _, content := range []string{"", "first"} {
		if content != "" {
			put(t, path, content)
		}
		before := dirwatch.StateOf(path)
		put(t, path, content+"changed")
		reported(t, must.Get(dirwatch.Files(t.Context(), []string{path}, before))(t))
	}
}

// Each change is one of what is at a path, which the links of the change before lead to.
func TestChangesBehindLinksAreReported(t *testing.T) {
	at := func(elements ...string) string { return filepath.Join(elements...) }
	for name, c := range map[string]struct {
		set     func(dir string) // conf/mcp.json
		changes []func(dir string)
	}{
		"a link to a file": {
			func(dir string) {
				put(t, at(dir, "v1", "mcp.json"), "1")
				put(t, at(dir, "conf", "x"), "")
				link(t, "../v1/mcp.json", at(dir, "conf", "mcp.json"))
			}, []func(dir string){
				func(dir string) { put(t, at(dir, "v1", "mcp.json"), "in place") },
				func(dir string) {
					put(t, at(dir, "new"), "replaced")
					must.Do(t, os.Rename(at(dir, "new"), at(dir, "v1", "mcp.json")))
				},
				func(dir string) {
					put(t, at(dir, "v2", "mcp.json"), "another")
					link(t, "../v2/mcp.json", at(dir, "conf", "mcp.json"))
				},
				func(dir string) { put(t, at(dir, "v2", "mcp.json"), "in place there") },
				func(dir string) { must.Do(t, os.Remove(at(dir, "v2", "mcp.json"))) },
				func(dir string) { put(t, at(dir, "v2", "mcp.json"), "it is back") },
			},
		},
		"a link to a directory": {
			func(dir string) {
				put(t, at(dir, "v1", "mcp.json"), "1")
				put(t, at(dir, "v2", "mcp.json"), "2")
				link(t, "v1", at(dir, "latest"))
				link(t, "latest", at(dir, "conf"))
			}, []func(dir string){
				func(dir string) { link(t, "v2", at(dir, "latest")) },
				func(dir string) { put(t, at(dir, "v2", "mcp.json"), "in place") },
				func(dir string) { link(t, "v1", at(dir, "conf")) },
				func(dir string) { put(t, at(dir, "v1", "mcp.json"), "in place there") },
			},
		},
		"a directory": {
			func(dir string) { put(t, at(dir, "conf", "mcp.json"), "1") },
			[]func(dir string){
				func(dir string) { // that is replaced
					put(t, at(dir, "new", "mcp.json"), "of the new one")
					must.Do(t, os.Rename(at(dir, "conf"), at(dir, "old")))
					must.Do(t, os.Rename(at(dir, "new"), at(dir, "conf")))
				},
				func(dir string) { put(t, at(dir, "conf", "mcp.json"), "in place") },
				func(dir string) { must.Do(t, os.RemoveAll(at(dir, "conf"))) },
				func(dir string) { put(t, at(dir, "conf", "mcp.json"), "it is back") },
			},
		},
		"files with the same size and time": {
			func(dir string) {
				for _, version := range []string{"v1", "v2"} {
					put(t, at(dir, version, "mcp.json"), version)
					must.Do(t, os.Chtimes(at(dir, version, "mcp.json"), time.Unix(1, 0), time.Unix(1, 0)))
				}
				link(t, "v1", at(dir, "conf"))
			}, []func(dir string){func(dir string) { link(t, "v2", at(dir, "conf")) }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.set(dir)
			path := at(dir, "conf", "mcp.json")
			changed := must.Get(dirwatch.Files(t.Context(), []string{path}, dirwatch.StateOf(path)))(t)
			for _, change := range c.changes {
				change(dir)
				reported(t, changed)
			}
		})
	}
}
