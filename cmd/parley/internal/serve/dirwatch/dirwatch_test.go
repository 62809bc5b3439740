package dirwatch_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// put writes a file of a directory, which it makes. Each text of a file has another length: the file system may not see
// a difference in time.
func put(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// link makes path a symbolic link to target, atomically.
func link(t *testing.T, target, path string) {
	t.Helper()
	must.Do(t, os.Symlink(target, path+".new"))
	must.Do(t, os.Rename(path+".new", path))
}

// look waits until the files were looked at.
func look() {
	time.Sleep(1300 * time.Millisecond)
	synctest.Wait()
}

// watched is a watched directory and the changes that are reported for it.
type watched struct {
	dir     string
	changes chan string
	log     strings.Builder
}

func (w *watched) watch(t *testing.T) {
	t.Helper()
	w.changes = make(chan string, 10)
	watcher := must.Get(dirwatch.New(w.dir, slog.New(slog.NewTextHandler(&w.log, nil)), func(c dirwatch.Changes) {
		w.changes <- fmt.Sprintf("%v list:%t moved:%t", c.Updated, c.ListChanged, c.Moved)
	}))(t)
	t.Cleanup(func() { must.Check(t, watcher.Close()) })
}

// check checks which changes are reported since the last check.
func (w *watched) check(t *testing.T, want ...string) {
	t.Helper()
	look()
	var got []string
	for len(w.changes) > 0 {
		got = append(got, <-w.changes)
	}
	must.CheckThat(t, slices.Equal(got, want), "reported %q, want %q", got, want)
}

func TestChangesOfADirectoryAreReported(t *testing.T) {
	outside := t.TempDir()
	in := func(dir string, elements ...string) string {
		return filepath.Join(append([]string{dir}, elements...)...)
	}
	type step struct {
		change func(t *testing.T, dir string)
		want   string // "" for no report
	}
	rename := func(from, to string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { must.Do(t, os.Rename(in(dir, from), in(dir, to))) }
	}
	write := func(name, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { put(t, in(dir, name), text) }
	}
	for name, c := range map[string]struct {
		files []string // at first
		steps []step
	}{
		"written": {[]string{"a.txt", "sub/b.txt"}, []step{
			{func(*testing.T, string) {}, ""},
			{write("a.txt", "now"), "[a.txt] list:false moved:false"},
			{write("sub/b.txt", "now"), "[sub/b.txt] list:false moved:false"},
		}},
		"created and removed": {[]string{"a.txt"}, []step{
			{write("new.txt", "new"), "[new.txt] list:true moved:false"},
			{rename("new.txt", "a.txt"), "[a.txt new.txt] list:true moved:false"}, // as editors save
			{func(t *testing.T, dir string) { must.Do(t, os.Remove(in(dir, "a.txt"))) },
				"[a.txt] list:true moved:false"},
		}},
		"new directories": {nil, []step{
			{write("x/y/z.txt", "new"), "[x/y/z.txt] list:true moved:false"},
			{write("x/y/z.txt", "again"), "[x/y/z.txt] list:false moved:false"},
			{rename("x", "renamed"), "[renamed/y/z.txt x/y/z.txt] list:true moved:false"},
			{write("renamed/y/z.txt", "once more"), "[renamed/y/z.txt] list:false moved:false"},
			{func(t *testing.T, dir string) { must.Do(t, os.RemoveAll(in(dir, "renamed"))) },
				"[renamed/y/z.txt] list:true moved:false"},
		}},
		"hidden, and behind a link to a directory": {[]string{".secret/a.txt", "a.txt"}, []step{
			{func(t *testing.T, dir string) { link(t, outside, in(dir, "link")) }, "[link] list:true moved:false"},
			{func(t *testing.T, dir string) {
				put(t, in(outside, "secret.txt"), "s3cret")
				put(t, in(dir, ".secret", "a.txt"), "now")
				put(t, in(dir, ".secret.txt"), "now")
			}, ""},
		}},
		// As those of a volume of Kubernetes.
		"links to the current version": {[]string{"..v1/a.txt"}, []step{
			{func(t *testing.T, dir string) {
				link(t, "..v1", in(dir, "..data"))
				link(t, "..data/a.txt", in(dir, "a.txt"))
			}, "[a.txt] list:true moved:false"},
			{func(t *testing.T, dir string) {
				put(t, in(dir, "..v2", "a.txt"), "in the next version")
				link(t, "..v2", in(dir, "..data"))
			}, "[a.txt] list:false moved:false"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{dir: t.TempDir()}
				for _, file := range c.files {
					put(t, in(w.dir, file), "at first")
				}
				w.watch(t)
				for _, s := range c.steps {
					s.change(t, w.dir)
					if s.want == "" {
						w.check(t)
					} else {
						w.check(t, s.want)
					}
				}
			})
		})
	}
}

func TestDirectoryBehindALinkIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := t.TempDir()
		for i, version := range []string{"v1", "v2", "v3"} {
			put(t, filepath.Join(at, version, "a.txt"), strings.Repeat("x", i))
		}
		w := &watched{dir: filepath.Join(at, "current")}
		link(t, "v1", filepath.Join(at, "latest"))
		link(t, "latest", w.dir)
		w.watch(t)
		const moved = "[a.txt] list:false moved:true"
		link(t, "v2", filepath.Join(at, "latest")) // a link on the way
		w.check(t, moved)
		put(t, filepath.Join(w.dir, "a.txt"), "in the new directory")
		w.check(t, "[a.txt] list:false moved:false")
		link(t, "v3", w.dir)
		w.check(t, moved)
		must.Do(t, os.Rename(filepath.Join(at, "v3"), filepath.Join(at, "old"))) // the directory itself
		w.check(t, "[a.txt] list:true moved:false")
		must.Do(t, os.Rename(filepath.Join(at, "v2"), filepath.Join(at, "v3")))
		w.check(t, "[a.txt] list:true moved:true")
	})
}

func TestDepthOfADirectoryIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{dir: t.TempDir()}
		deep := strings.Repeat("d/", 40)
		put(t, filepath.Join(w.dir, deep, "a.txt"), "at first")
		w.watch(t)
		put(t, filepath.Join(w.dir, deep, "a.txt"), "now")
		put(t, filepath.Join(w.dir, "new.txt"), "new")
		w.check(t, "[new.txt] list:true moved:false")
		must.CheckContains(t, w.log.String(), "nested too deeply")
	})
}

func TestNewReturnsAnErrorForAMissingDirectory(t *testing.T) {
	_, err := dirwatch.New(filepath.Join(t.TempDir(), "absent"), slog.Default(), nil)
	must.CheckIs(t, err, os.ErrNotExist)
}

// Each change is one of what is at a path, to which the links of the change before lead.
func TestChangesOfFilesAreReported(t *testing.T) {
	at := filepath.Join
	for name, c := range map[string]struct {
		set     func(dir string) // conf/mcp.json
		changes []func(dir string)
	}{
		"a file": {func(string) {}, []func(dir string){
			func(dir string) { put(t, at(dir, "conf", "mcp.json"), "created") },
			func(dir string) { put(t, at(dir, "conf", "mcp.json"), "") },
		}},
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
				func(dir string) { must.Do(t, os.Remove(at(dir, "v2", "mcp.json"))) },
				func(dir string) { put(t, at(dir, "v2", "mcp.json"), "it is back") },
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
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			c.set(dir)
			path := at(dir, "conf", "mcp.json")
			before := dirwatch.StateOf(path)
			c.changes[0](dir) // a program reads its files, and watches them some time later
			changed := dirwatch.Files(t.Context(), []string{path}, before)
			for i := range c.changes {
				look()
				select {
				case <-changed:
				default:
					t.Errorf("%s: change %d is not reported", name, i)
				}
				look()
				must.CheckThat(t, len(changed) == 0, "%s: change %d is reported twice", name, i)
				if i+1 < len(c.changes) {
					c.changes[i+1](dir)
				}
			}
		})
	}
}

// A program that saves a file truncates it, writes a part of it, and then the rest.
func TestAFileIsReportedWhenItStaysAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mcp.json")
		put(t, path, "{ }")
		changed := dirwatch.Files(t.Context(), []string{path}, dirwatch.StateOf(path))
		for i := range 4 {
			put(t, path, strings.Repeat("x", i))
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			must.CheckThat(t, len(changed) == 0, "reported after part %d", i)
		}
		look()
		must.CheckEqual(t, len(changed), 1, "reports")
	})
}
