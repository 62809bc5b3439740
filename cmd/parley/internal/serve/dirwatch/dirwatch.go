// Package dirwatch reports changes of files: of those in a directory tree, and of single files.
package dirwatch

import (
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
	Moved       bool     // the path leads to another directory, because a symbolic link or a directory was replaced
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
// that begin with a dot, and follows symbolic links to files of the directory, but not to directories. The path of the
// directory itself can have symbolic links, and lead to another directory later. Some time after each event the Watcher
// compares all files with those that it has seen before, so that no event can be missed.
type Watcher struct {
	dir     string // as it was given, absolute
	options Options
	events  *fsnotify.Watcher
	done    chan struct{} // closed when the goroutine has ended

	// Used by the goroutine only.
	path    string                 // to which dir leads
	info    fs.FileInfo            // of path
	links   linkWatch              // of dir
	watched map[string]bool        // directories below path, which itself is "."
	seen    map[string]fs.FileInfo // files and directories, by their paths
	limited bool                   // the warning about the limits has been logged
}

// New watches the directory dir until Close is called.
func New(dir string, options Options) (*Watcher, error) {
	if options.MaxDirectories <= 0 {
		options.MaxDirectories = maxDirectories
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	w := &Watcher{dir: dir, options: options, events: events, done: make(chan struct{})}
	w.links.events = events
	if _, err := w.follow(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot watch %s: %w", dir, err), events.Close())
	}
	w.seen = w.scan()
	go func() {
		defer close(w.done)
		await(events, treeDelay, w.concerns, w.failed, w.report)
	}()
	return w, nil
}

// Close stops the watcher. OnChange is not called after Close has returned.
func (w *Watcher) Close() error {
	err := w.events.Close()
	<-w.done
	return err
}

// follow watches the directory to which the path leads now, and reports whether that is another one than before.
func (w *Watcher) follow() (moved bool, err error) {
	linksErr := w.links.follow(w.dir)
	path, err := filepath.EvalSymlinks(w.dir)
	if err != nil {
		return false, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if path == w.path && os.SameFile(info, w.info) {
		return false, linksErr
	}
	for name := range w.watched {
		if dir := w.at(name); !w.links.dirs[dir] {
			_ = w.events.Remove(dir) // it may be removed already
		}
	}
	w.path, w.info, w.watched = path, info, map[string]bool{".": true}
	return true, errors.Join(linksErr, w.events.Add(path))
}

// concerns reports whether an event can be about the files. Some systems have the current version of all files in a
// directory to which a link leads whose name begins with two dots, such as Kubernetes.
func (w *Watcher) concerns(e fsnotify.Event) bool {
	dir, name := filepath.Split(e.Name)
	if dir = filepath.Clean(dir); w.links.dirs[dir] && dir != w.path {
		return w.links.paths[e.Name]
	}
	return !strings.HasPrefix(name, ".") || strings.HasPrefix(name, "..")
}

// await calls check some time after events that concern it, until the watcher is closed. If check takes long, it is
// called less often.
func await(events *fsnotify.Watcher, delay time.Duration, concerns func(fsnotify.Event) bool, failed func(error),
	check func()) {
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
			if !concerns(e) {
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
	moved, err := w.follow()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.failed(err)
	}
	before, now := w.seen, w.scan()
	w.seen = now
	updated := make(map[string]bool)
	changes := Changes{Moved: moved}
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
	if changes.Updated = slices.Sorted(maps.Keys(updated)); len(changes.Updated) > 0 || changes.ListChanged || moved {
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
	root, err := os.OpenRoot(w.path)
	if err != nil { // the directory was removed
		return all
	}
	defer root.Close()
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
