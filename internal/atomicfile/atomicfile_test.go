package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

const limit = 1 << 10

// writers are the functions that replace a file, each with the same arguments.
var writers = map[string]func(path string, content []byte) error{
	"Write": Write, "WriteCache": WriteCache,
	"Update": func(path string, content []byte) error {
		return Update(context.Background(), path, limit, func([]byte) ([]byte, error) { return content, nil })
	},
}

func TestTheFileIsReplaced(t *testing.T) {
	for name, write := range writers {
		path := filepath.Join(t.TempDir(), "f")
		for _, content := range []string{"first", "second"} {
			must.Do(t, write(path, []byte(content)))
			must.CheckEqual(t, string(must.Get(os.ReadFile(path))(t)), content, name)
		}
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v, want 0600", name, info.Mode(), err)
		}
		onlyFiles(t, path)
	}
}

// onlyFiles fails if the directory of these files contains other files.
func onlyFiles(t *testing.T, paths ...string) {
	t.Helper()
	var got, want []string
	for _, entry := range must.Get(os.ReadDir(filepath.Dir(paths[0])))(t) {
		if runtime.GOOS != "windows" || !strings.HasSuffix(entry.Name(), ".lock") {
			got = append(got, entry.Name())
		}
	}
	for _, path := range paths {
		want = append(want, filepath.Base(path))
	}
	must.CheckEqual(t, fmt.Sprint(got), fmt.Sprint(want), "files")
}

func TestNoTemporaryFileIsLeftAfterAnError(t *testing.T) {
	for name, write := range writers {
		path := filepath.Join(t.TempDir(), "f")
		must.Do(t, os.Mkdir(path, 0o700)) // a file cannot replace a directory
		err := write(path, nil)
		must.That(t, err != nil, "%s returned no error", name)
		onlyFiles(t, path)
	}
}

func TestSymbolicLinksStay(t *testing.T) {
	for name, write := range writers {
		dir := t.TempDir()
		must.Do(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
		real, other, link := filepath.Join(dir, "real", "f"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
		must.Do(t, os.Symlink(filepath.Join("real", "f"), other))
		must.Do(t, os.Symlink("other", link))
		for _, content := range []string{"new", "old"} { // the file does not exist at first
			must.Do(t, write(link, []byte(content)))
			must.CheckEqual(t, string(must.Get(os.ReadFile(real))(t)), content, name)
		}
		onlyFiles(t, link, other, filepath.Join(dir, "real"))
		onlyFiles(t, real)
	}
}

func TestUpdateKeepsThePermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // Windows has no such permissions
	}
	path := filepath.Join(t.TempDir(), "f")
	for _, mode := range []fs.FileMode{0o644, 0o600, 0o664} {
		must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
		must.Do(t, os.Chmod(path, mode))
		must.Do(t, Update(t.Context(), path, limit, func([]byte) ([]byte, error) { return []byte("new"), nil }))
		must.CheckEqual(t, must.Get(os.Stat(path))(t).Mode().Perm(), mode, "mode")
	}
}

func TestUpdatesAtTheSameTimeAreAllKept(t *testing.T) {
	const writers, updates = 8, 10
	path := filepath.Join(t.TempDir(), "f")
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range updates {
				must.Check(t, Update(t.Context(), path, limit, func(old []byte) ([]byte, error) {
					return append(old, '.'), nil
				}))
			}
		})
	}
	all.Wait()
	must.CheckEqual(t, len(must.Get(os.ReadFile(path))(t)), writers*updates, "updates in the file")
	onlyFiles(t, path)
}

// An editor does not use the lock.
func TestUpdateBeginsAgainIfAnotherProgramChangesTheFile(t *testing.T) {
	for _, before := range []string{"", "old"} {
		path := filepath.Join(t.TempDir(), "f")
		if before != "" {
			must.Do(t, os.WriteFile(path, []byte(before), 0o600))
		}
		var seen []string
		must.Do(t, Update(t.Context(), path, limit, func(old []byte) ([]byte, error) {
			if seen = append(seen, string(old)); len(seen) == 1 {
				must.Do(t, os.WriteFile(path, []byte("by the editor"), 0o600))
			}
			return append(old, " and parley"...), nil
		}))
		must.CheckEqual(t, fmt.Sprintf("%q", seen), fmt.Sprintf("%q", []string{before, "by the editor"}), "contents")
		must.CheckEqual(t, string(must.Get(os.ReadFile(path))(t)), "by the editor and parley", "content")
	}
}

func TestUpdateGivesUpIfTheFileAlwaysChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	n := 0
	err := Update(t.Context(), path, limit, func(old []byte) ([]byte, error) {
		n++
		must.Do(t, os.WriteFile(path, fmt.Append(nil, n), 0o600))
		return []byte("new"), nil
	})
	must.CheckIs(t, err, errChanging)
	must.CheckEqual(t, string(must.Get(os.ReadFile(path))(t)), fmt.Sprint(maxAttempts), "content")
	onlyFiles(t, path)
}

func TestUpdateWritesNothingAfterAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
	failed := errors.New("failed")
	must.CheckIs(t, Update(t.Context(), path, limit, func(old []byte) ([]byte, error) {
		old[0] = 'x'
		return []byte("new"), failed
	}), failed)
	must.CheckEqual(t, string(must.Get(os.ReadFile(path))(t)), "old", "content")
	must.Do(t, os.WriteFile(path, make([]byte, limit+1), 0o600))
	must.CheckFails(t, Update(t.Context(), path, limit, nil), "too large")
	onlyFiles(t, path)
}

// A process that was killed leaves the file of its lock, but not the lock.
func TestFileOfALockThatIsLeftDoesNotBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".f.lock")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.Get(Lock(t.Context(), path))(t)()
	if _, err := os.Stat(path); runtime.GOOS != "windows" && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the lock: %v, want that it is removed", err)
	}
}

func TestLockFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	must.Do(t, os.Symlink("elsewhere", path))
	must.CheckFails(t, must.Err(Lock(t.Context(), path)), "regular file")
	onlyFiles(t, path)
}

func TestLockIsExclusiveAndTheWaitEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held := 0
	var mu sync.Mutex // for the race detector, which does not know file locks
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			mu.Lock()
			held++
			now := held
			mu.Unlock()
			must.CheckEqual(t, now, 1, "hold the lock")
			mu.Lock()
			held--
			mu.Unlock()
		})
	}
	all.Wait()
	unlock := must.Get(Lock(t.Context(), path))(t)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.CheckIs(t, must.Err(Lock(ctx, path)), context.Canceled)
}
