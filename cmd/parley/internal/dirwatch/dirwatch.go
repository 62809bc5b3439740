// Package dirwatch reports changes of files: of those in a directory tree, and of single files.
package dirwatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// treeDelay is the time during which changes are collected, because a program that saves a file changes it several
	// times.
	treeDelay = 100 * time.Millisecond
	// fileDelay is the time from a change of a single file until it is reported: a program that saves a file may
	// truncate it first.
	fileDelay = 200 * time.Millisecond
	// maxDirectories is the default of Options.MaxDirectories. The system limits the watches of each user
	// (fs.inotify.max_user_watches on Linux).
	maxDirectories = 2000
	maxDepth       = 32
	maxFiles       = 50_000
)

// Changes are the changes since the previous report. File names are slash-separated paths relative to the directory.
type Changes struct {
	Updated     []string // files that were written, created or removed; sorted
	ListChanged bool     // files or directories were created or removed
}

// Options configure a Watcher.
type Options struct {
	// OnChange receives the changes. Calls do not overlap. It must not call Close.
	OnChange func(Changes)
	// Logger receives errors that prevent changes from being detected.
	Logger *slog.Logger
	// MaxDirectories limits the number of watched directories; 0 means 2,000. Changes in further directories are not
	// detected at once, and a warning is logged.
	MaxDirectories int
}

// Watcher watches a directory and its subdirectories, including subdirectories that are created later. It ignores names
// that begin with a dot and does not follow symbolic links. Some time after each event it compares all files with those
// that it has seen before, so that no event can be missed.
type Watcher struct {
	path    string // of root
	root    *os.Root
	options Options
	events  *fsnotify.Watcher
	done    chan struct{} // closed when the goroutine has ended

	// Used by the goroutine only.
	watched map[string]bool        // directories
	seen    map[string]fs.FileInfo // files and directories, by their paths
	limited bool                   // the warning about the limits has been logged
}

// New watches the directory dir until Close is called.
func New(dir string, options Options) (*Watcher, error) {
	if options.MaxDirectories <= 0 {
		options.MaxDirectories = maxDirectories
	}
	dir, err := filepath.EvalSymlinks(dir) // dir itself can be a symbolic link
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	events, err := fsnotify.NewWatcher()
	if err == nil {
		if err = events.Add(dir); err != nil {
			_ = events.Close()
		}
	}
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	w := &Watcher{path: dir, root: root, options: options, events: events, done: make(chan struct{}),
		watched: map[string]bool{".": true}}
	w.seen = w.scan()
	go func() {
		defer close(w.done)
		await(events, treeDelay, w.failed, w.report)
	}()
	return w, nil
}

// Close stops the watcher. OnChange is not called after Close has returned.
func (w *Watcher) Close() error {
	err := w.events.Close()
	<-w.done
	return errors.Join(err, w.root.Close())
}

// await calls check some time after events, until the watcher is closed. If check takes long, it is called less often.
func await(events *fsnotify.Watcher, delay time.Duration, failed func(error), check func()) {
	timer := time.NewTimer(delay)
	timer.Stop()
	defer timer.Stop()
	pending, took := false, time.Duration(0)
	for {
		select {
		case e, open := <-events.Events:
			if !open {
				return
			}
			if strings.HasPrefix(filepath.Base(e.Name), ".") && delay == treeDelay {
				continue
			}
		case err, open := <-events.Errors:
			if !open {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				failed(err)
			}
		case <-timer.C:
			start := time.Now()
			check()
			pending, took = false, time.Since(start)
			continue
		}
		if !pending { // otherwise a file that changes all the time would delay the report forever
			pending = true
			timer.Reset(max(delay, 10*took))
		}
	}
}

func (w *Watcher) failed(err error) {
	w.options.Logger.Warn("cannot receive all changes of a directory", "error", err)
}

// report reports how the files differ from those that were seen before.
func (w *Watcher) report() {
	before, now := w.seen, w.scan()
	w.seen = now
	updated := make(map[string]bool)
	changes := Changes{}
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
	if changes.Updated = slices.Sorted(maps.Keys(updated)); len(changes.Updated) > 0 || changes.ListChanged {
		w.options.OnChange(changes)
	}
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// scan returns the files and directories, and watches the directories among them. It repeats this while it finds new
// directories, because their files can have changed before they were watched.
func (w *Watcher) scan() map[string]fs.FileInfo {
	for {
		now := w.read()
		for name := range w.watched {
			if info := now[name]; name != "." && (info == nil || !info.IsDir()) {
				_ = w.events.Remove(w.at(name)) // a renamed directory is still watched under its old name
				delete(w.watched, name)
			}
		}
		added := false
		for name, info := range now {
			switch {
			case !info.IsDir() || w.watched[name]:
			case len(w.watched) >= w.options.MaxDirectories:
				w.limit(name)
			default:
				if err := w.events.Add(w.at(name)); err == nil {
					w.watched[name], added = true, true
				} else if !errors.Is(err, fs.ErrNotExist) {
					w.options.Logger.Warn("cannot watch a directory", "directory", name, "error", err)
				}
			}
		}
		if !added {
			return now
		}
	}
}

func (w *Watcher) at(name string) string { return filepath.Join(w.path, filepath.FromSlash(name)) }

// read returns the files and directories except for hidden ones.
func (w *Watcher) read() map[string]fs.FileInfo {
	all := make(map[string]fs.FileInfo)
	_ = fs.WalkDir(w.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
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
		if info, err := entry.Info(); err == nil { // otherwise it is removed again
			all[name] = info
		}
		if entry.IsDir() && strings.Count(name, "/") >= maxDepth {
			w.limit(name)
			return fs.SkipDir
		}
		return nil
	})
	return all
}

// limit logs that a part of the tree is not watched.
func (w *Watcher) limit(name string) {
	if !w.limited {
		w.limited = true
		w.options.Logger.Warn("cannot watch all directories: too many, or nested too deeply", "first", name, "watched",
			len(w.watched))
	}
}

// Files reports changes of single files until ctx ends. It watches their directories, because programs replace files
// and links.
func Files(ctx context.Context, paths []string) (<-chan struct{}, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		dirs := []string{filepath.Dir(path)}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
		for _, dir := range dirs {
			if err := events.Add(dir); err != nil {
				return nil, errors.Join(err, events.Close())
			}
		}
	}
	changed, before := make(chan struct{}, 1), State(paths...)
	context.AfterFunc(ctx, func() { events.Close() })
	go await(events, fileDelay, func(error) {}, func() {
		now := State(paths...)
		if now == before {
			return // another file of a directory
		}
		before = now
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	return changed, nil
}

// State describes files, differently after each of them has been replaced or changed.
func State(paths ...string) string {
	var state strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprint(&state, info.Size(), " ", info.ModTime().UnixNano())
		}
		state.WriteByte('\n')
	}
	return state.String()
}
