package dirwatch_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a watched directory and the changes that are reported for it.
type watched struct {
	t       *testing.T
	dir     string
	changes chan dirwatch.Changes
	log     strings.Builder
}

func watch(t *testing.T, maxDirectories int, files ...string) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), changes: make(chan dirwatch.Changes, 1000)}
	for _, name := range files {
		w.write(name, "at first")
	}
	watcher, err := dirwatch.New(w.dir, dirwatch.Options{
		OnChange: func(c dirwatch.Changes) {
			w.changes <- c
		}, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), MaxDirectories: maxDirectories,
	})
	must.Do(t, err)
	t.Cleanup(func() {
		must.Check(t, watcher.Close())
	})
	return w
}

func (w *watched) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *watched) write(name, text string) {
	w.t.Helper()
	must.Do(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	must.Do(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *watched) check(err error) {
	w.t.Helper()
	must.Do(w.t, err)
}

// until collects changes until all names are reported, and also a change of the list if
// listChanged is true.
func (w *watched) until(listChanged bool, names ...string) {
	w.t.Helper()
	var all dirwatch.Changes
	timeout := time.After(20 * time.Second)
	for {
		missing := slices.DeleteFunc(slices.Clone(names),
			func(name string) bool { return slices.Contains(all.Updated, name) })
		if len(missing) == 0 && (all.ListChanged || !listChanged) {
			if all.ListChanged && !listChanged {
				w.t.Errorf("reported a change of the list: %+v", all)
			}
			return
		}
		select {
		case c := <-w.changes:
			all.Updated, all.ListChanged = append(all.Updated, c.Updated...), all.ListChanged || c.ListChanged
			for _, name := range c.Updated {
				if strings.Contains(name, "secret") {
					w.t.Errorf("reported %s", name)
				}
			}
		case <-timeout:
			w.t.Fatalf("reported %+v, missing %q", all, missing)
		}
	}
}

func TestWrittenFilesAreReported(t *testing.T) {
	w := watch(t, 0, "a.txt", "sub/b.txt")
	w.write("a.txt", "now")
	w.until(false, "a.txt")
	w.write("sub/b.txt", "now")
	w.until(false, "sub/b.txt")
}

func TestCreatedAndRemovedFilesChangeTheList(t *testing.T) {
	w := watch(t, 0, "a.txt")
	w.write("new.txt", "new")
	w.until(true, "new.txt")
	w.check(os.Rename(w.path("new.txt"), w.path("a.txt"))) // as editors save
	w.until(true, "a.txt", "new.txt")
	w.check(os.Remove(w.path("a.txt")))
	w.until(true, "a.txt")
}

func TestNewDirectoriesAreWatched(t *testing.T) {
	w := watch(t, 0)
	w.write("x/y/z.txt", "new") // in directories that are not watched yet
	w.until(true, "x/y/z.txt")
	w.write("x/y/z.txt", "again")
	w.until(false, "x/y/z.txt")
	w.check(os.Rename(w.path("x"), w.path("renamed")))
	w.until(true, "renamed/y/z.txt")
	w.write("renamed/y/z.txt", "again")
	w.until(false, "renamed/y/z.txt")
	w.check(os.RemoveAll(w.path("renamed")))
	w.until(true)
}

func TestSymbolicLinksAndHiddenFilesAreIgnored(t *testing.T) {
	outside := t.TempDir()
	w := watch(t, 0, ".secret/a.txt", "a.txt")
	w.check(os.Symlink(outside, w.path("link")))
	w.until(true)
	w.check(os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("s3cret"), 0o600))
	w.write(".secret/a.txt", "now")
	w.write(".secret.txt", "now")
	w.write("a.txt", "now")
	w.until(false, "a.txt")
}

func TestNumberOfDirectoriesIsLimited(t *testing.T) {
	w := watch(t, 2, "a/a.txt", "b/b.txt", "c/c.txt")
	w.write("new.txt", "now")
	w.until(true, "new.txt")
	if !strings.Contains(w.log.String(), "too many") {
		t.Errorf("log: %s", w.log.String())
	}
}

func TestManyWritesAreReportedTogether(t *testing.T) {
	w := watch(t, 0, "a.txt")
	f, err := os.OpenFile(w.path("a.txt"), os.O_WRONLY, 0)
	w.check(err)
	defer f.Close()
	for range 5000 { // without truncating, which waits for the disk
		_, err := f.WriteAt([]byte("now"), 0)
		w.check(err)
	}
	w.write("last.txt", "")
	reports := 0
	for last := false; !last; reports++ {
		select {
		case c := <-w.changes:
			last = slices.Contains(c.Updated, "last.txt")
		case <-time.After(20 * time.Second):
			t.Fatal("no changes are reported")
		}
	}
	if reports > 100 {
		t.Errorf("5,000 writes are reported %d times, want at most 100", reports)
	}
}

func TestNewReturnsAnErrorForAMissingDirectory(t *testing.T) {
	if _, err := dirwatch.New(filepath.Join(t.TempDir(), "absent"), dirwatch.Options{}); err == nil {
		t.Error("New returned no error")
	}
}

// link makes path a symbolic link to target, atomically.
func link(t *testing.T, target, path string) {
	t.Helper()
	must.Do(t, os.Symlink(target, path+".new"))
	must.Do(t, os.Rename(path+".new", path))
}

func TestDirectoryBehindALinkIsFollowed(t *testing.T) {
	at := t.TempDir()
	w := &watched{t: t, dir: filepath.Join(at, "current"), changes: make(chan dirwatch.Changes, 1000)}
	for _, version := range []string{"v1", "v2", "v3"} {
		must.Do(t, os.MkdirAll(filepath.Join(at, version), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(at, version, "a.txt"), []byte(version), 0o600))
	}
	link(t, "v1", filepath.Join(at, "latest"))
	link(t, "latest", w.dir)
	watcher := must.Get(dirwatch.New(w.dir, dirwatch.Options{OnChange: func(c dirwatch.Changes) { w.changes <- c },
		Logger: slog.New(slog.NewTextHandler(&w.log, nil))}))(t)
	defer watcher.Close()
	moved := func() {
		t.Helper()
		select {
		case c := <-w.changes:
			if !c.Moved || !slices.Equal(c.Updated, []string{"a.txt"}) {
				t.Errorf("reported %+v, want that it moved and a.txt", c)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the change is not reported")
		}
	}
	link(t, "v2", filepath.Join(at, "latest")) // a link on the way
	moved()
	w.write("a.txt", "in the new directory")
	w.until(false, "a.txt")
	link(t, "v3", w.dir)
	moved()
	must.Do(t, os.Rename(filepath.Join(at, "v3"), filepath.Join(at, "old"))) // the directory itself
	must.Do(t, os.Rename(filepath.Join(at, "v2"), filepath.Join(at, "v3")))
	for moved := false; !moved; { // the files can be missing at first
		select {
		case c := <-w.changes:
			moved = c.Moved
		case <-time.After(20 * time.Second):
			t.Fatal("the change is not reported")
		}
	}
	w.write("a.txt", "again")
	w.until(false, "a.txt")
}

// The files of a directory can be links to their current version, as those of a volume of Kubernetes.
func TestFilesBehindALinkOfTheDirectoryAreFollowed(t *testing.T) {
	w := watch(t, 0, "..v1/a.txt", "..v2/a.txt")
	w.write("..v2/a.txt", "in the next version")
	link(t, "..v1", w.path("..data"))
	link(t, "..data/a.txt", w.path("a.txt"))
	w.until(true, "a.txt")
	link(t, "..v2", w.path("..data"))
	w.until(false, "a.txt")
}
