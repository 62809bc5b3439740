// Package dirwatch reports changes of single files, and of files in a directory tree. It polls twice a second, which
// works on every file system, even behind symbolic links that change, and needs no watches, whose number is limited for
// each user.
package dirwatch

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// interval is the time between two looks at files.
	interval = 500 * time.Millisecond
	// rest is how many times as long as a look the time until the next one is at least, for large trees.
	rest     = 20
	maxDepth = 32
	maxFiles = 50_000
)

// Changes are the changes since the previous report. File names are slash-separated paths relative to the directory.
type Changes struct {
	Updated     []string // files that were written, created or removed; sorted
	ListChanged bool     // files or directories were created or removed
	Moved       bool     // the path leads to another directory, because a symbolic link or a directory was replaced
}

// Watcher watches a directory and its subdirectories. It ignores names that begin with a dot, and follows symbolic
// links to files of the directory, but not to directories. The path of the directory itself can have symbolic links,
// and lead to another directory later.
type Watcher struct {
	dir      string
	onChange func(Changes)
	logger   *slog.Logger
	stop     func()
	done     chan struct{} // closed when the goroutine has ended

	// Used by the goroutine only.
	at      fs.FileInfo            // the directory to which the path led
	seen    map[string]fs.FileInfo // files and directories, by their paths
	limited bool                   // the warning about the limits has been logged
}

// New watches the directory dir until Close is called. onChange receives the changes. Calls do not overlap. It must not
// call Close.
func New(dir string, logger *slog.Logger, onChange func(Changes)) (*Watcher, error) {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watcher{dir: dir, onChange: onChange, logger: logger, stop: stop, done: make(chan struct{})}
	var err error
	if w.at, w.seen, err = w.look(); err != nil {
		stop()
		return nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	go w.run(ctx)
	return w, nil
}

// Close stops the watcher. onChange is not called after Close has returned.
func (w *Watcher) Close() error {
	w.stop()
	<-w.done
	return nil
}

func (w *Watcher) run(ctx context.Context) {
	defer close(w.done)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		start := time.Now()
		w.report()
		timer.Reset(max(interval, rest*time.Since(start)))
	}
}

// report reports how the files differ from those that were seen before.
func (w *Watcher) report() {
	before := w.seen
	at, now, err := w.look() // without files, if the directory was removed
	changes := Changes{Moved: err == nil && !os.SameFile(at, w.at)}
	w.seen = now
	if err == nil {
		w.at = at
	}
	updated := make(map[string]bool)
	for name, info := range now {
		old := before[name]
		changes.ListChanged = changes.ListChanged || old == nil
		if !info.IsDir() && (old == nil || !same(old, info)) {
			updated[name] = true
		}
	}
	for name, old := range before {
		if now[name] == nil {
			changes.ListChanged = true
			if !old.IsDir() {
				updated[name] = true
			}
		}
	}
	changes.Updated = slices.Sorted(maps.Keys(updated))
	if len(changes.Updated) > 0 || changes.ListChanged || changes.Moved {
		w.onChange(changes)
	}
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// look returns the directory to which the path leads, and its files and directories except for hidden ones.
func (w *Watcher) look() (at fs.FileInfo, all map[string]fs.FileInfo, err error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	if at, err = root.Stat("."); err != nil {
		return nil, nil, err
	}
	all = make(map[string]fs.FileInfo)
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case name == ".":
			return err
		case err != nil: // the directory was removed or cannot be read
			return fs.SkipDir
		case strings.HasPrefix(entry.Name(), ".") && entry.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(entry.Name(), "."):
			return nil
		case len(all) >= maxFiles:
			w.limit(name)
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if target, err := root.Stat(name); err == nil && target.Mode().IsRegular() {
				info = target
			}
		}
		if err == nil { // otherwise it is removed again
			all[name] = info
		}
		if entry.IsDir() && strings.Count(name, "/") >= maxDepth {
			w.limit(name)
			return fs.SkipDir
		}
		return nil
	})
	return at, all, nil
}

// limit logs that a part of the tree is not watched.
func (w *Watcher) limit(name string) {
	if !w.limited {
		w.limited = true
		w.logger.Warn("cannot watch all files of a directory: too many, or nested too deeply", "first", name)
	}
}

// State describes files at one time. A file that does not exist is nil.
type State []fs.FileInfo

// StateOf returns the state of files, which need not exist. A program that reads files takes their state before.
func StateOf(paths ...string) State {
	state := make(State, len(paths))
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil {
			state[i] = info
		}
	}
	return state
}

// Equal reports whether none of the files has been replaced or changed between two states.
func (s State) Equal(other State) bool {
	return slices.EqualFunc(s, other, func(a, b fs.FileInfo) bool {
		return (a == nil) == (b == nil) && (a == nil || same(a, b))
	})
}

// Files reports changes of single files since they had a state, until ctx ends. It waits until a file stays as it is: a
// program that saves a file may truncate it first.
func Files(ctx context.Context, paths []string, before State) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		last := before
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now := StateOf(paths...)
			if now.Equal(last) && !now.Equal(before) {
				before = now
				select {
				case changed <- struct{}{}:
				default:
				}
			}
			last = now
		}
	}()
	return changed
}
