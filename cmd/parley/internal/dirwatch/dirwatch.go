// Package dirwatch reports changes of the files in a directory tree.
package dirwatch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// delay is the time during which changes are collected, because a program that saves a file changes it several
	// times.
	delay = 100 * time.Millisecond
	// maxPending is the number of changed files that ends the delay early.
	maxPending = 1000
	// DefaultMaxDirectories is the default of Options.MaxDirectories. The system limits the
	// watches of each user (fs.inotify.max_user_watches on Linux).
	DefaultMaxDirectories = 2000
	maxDepth              = 32
	maxEntries            = 10_000 // entries read from a new directory
)

// Changes are the changes since the previous report. File names are slash-separated paths relative to the directory.
type Changes struct {
	Updated     []string // files that were written, created or removed; sorted
	ListChanged bool     // files were created or removed
}

// Options configure a Watcher.
type Options struct {
	// OnChange receives the changes. Calls do not overlap. It must not call Close.
	OnChange func(Changes)
	// Logger receives errors that prevent changes from being detected.
	Logger *slog.Logger
	// MaxDirectories limits the number of watched directories; 0 means DefaultMaxDirectories. Changes in further
	// directories are not detected, and a warning is logged.
	MaxDirectories int
}

// Watcher watches a directory and its subdirectories, including subdirectories that are
// created later. It ignores names that begin with a dot and does not follow symbolic links.
type Watcher struct {
	path    string // of root
	root    *os.Root
	options Options
	events  *fsnotify.Watcher
	done    chan struct{} // closed when run has returned

	// Used by the goroutine of run only.
	watched     map[string]bool // directories, by path relative to root
	updated     map[string]bool
	listChanged bool
	limitLogged bool      // the warning about the limits has been logged
	reported    time.Time // the last report
}

// New watches the directory dir until Close is called.
func New(dir string, options Options) (*Watcher, error) {
	if options.MaxDirectories <= 0 {
		options.MaxDirectories = DefaultMaxDirectories
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
	w := &Watcher{
		path: dir, root: root, options: options, events: events, done: make(chan struct{}),
		watched: make(map[string]bool), updated: make(map[string]bool), reported: time.Now(),
	}
	w.watched["."] = true
	w.scan(".", time.Time{})
	clear(w.updated)
	w.listChanged = false
	go w.run()
	return w, nil
}

// Close stops the watcher. OnChange is not called after Close has returned.
func (w *Watcher) Close() error {
	err := w.events.Close()
	<-w.done
	return errors.Join(err, w.root.Close())
}

func (w *Watcher) run() {
	defer close(w.done)
	timer := time.NewTimer(delay)
	timer.Stop()
	pending := false
	for {
		select {
		case e, open := <-w.events.Events:
			if !open {
				timer.Stop()
				return
			}
			w.handle(e)
		case err, open := <-w.events.Errors:
			if !open {
				timer.Stop()
				return
			}
			w.handleError(err)
		case <-timer.C:
			pending = false
			w.report()
			continue
		}
		switch {
		case len(w.updated) >= maxPending:
			w.report()
		case !pending && (w.listChanged || len(w.updated) > 0):
			pending = true
			timer.Reset(delay)
		}
	}
}

// report reports the collected changes.
func (w *Watcher) report() {
	if !w.listChanged && len(w.updated) == 0 {
		return
	}
	w.reported = time.Now()
	changes := Changes{Updated: slices.Sorted(maps.Keys(w.updated)), ListChanged: w.listChanged}
	clear(w.updated)
	w.listChanged = false
	w.options.OnChange(changes)
}

// handle handles one event.
func (w *Watcher) handle(e fsnotify.Event) {
	name, ok := w.relative(e.Name)
	switch {
	case !ok:
	case e.Has(fsnotify.Create):
		w.created(name)
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename): // a rename also creates an event for the new name
		w.listChanged = true
		if w.watched[name] {
			w.unwatch(name)
		} else {
			w.updated[name] = true
		}
	case e.Has(fsnotify.Write):
		if !w.watched[name] {
			w.updated[name] = true
		}
	}
}

// relative returns the path of file relative to the directory. ok is false for hidden files
// and for the directory itself.
func (w *Watcher) relative(file string) (name string, ok bool) {
	rel, err := filepath.Rel(w.path, file)
	if err != nil {
		return "", false
	}
	name = filepath.ToSlash(rel)
	return name, name != "." && fs.ValidPath(name) && !hidden(name)
}

func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// created handles a name that is new, or that now names another file.
func (w *Watcher) created(name string) {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	switch {
	case err != nil: // already removed again, which causes another event
	case info.IsDir():
		w.watch(name)
		w.listChanged = true
	default:
		w.updated[name], w.listChanged = true, true
	}
}

func (w *Watcher) at(name string) string { return filepath.Join(w.path, filepath.FromSlash(name)) }

// watch watches a new directory and reports the files that it already contains.
func (w *Watcher) watch(name string) {
	switch {
	case w.watched[name]:
	case len(w.watched) >= w.options.MaxDirectories || strings.Count(name, "/") >= maxDepth:
		if !w.limitLogged {
			w.limitLogged = true
			w.options.Logger.Warn("cannot watch all directories: too many, or nested too deeply", "first", name,
				"watched",
				len(w.watched))
		}
		return
	default:
		if err := w.events.Add(w.at(name)); err != nil {
			w.logUnwatched(name, err)
			return
		}
		// Add follows a symbolic link that has replaced the directory in the meantime.
		if info, err := w.root.Lstat(filepath.FromSlash(name)); err != nil || !info.IsDir() {
			_ = w.events.Remove(w.at(name))
			return
		}
		w.watched[name] = true
	}
	w.scan(name, time.Time{})
}

// logUnwatched logs that changes in a directory are not detected.
func (w *Watcher) logUnwatched(name string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		w.options.Logger.Warn("cannot watch a directory", "directory", name, "error", err)
	}
}

// scan adds the files in a directory tree that were modified since a time to the changes.
func (w *Watcher) scan(name string, since time.Time) {
	dir, err := w.root.Open(filepath.FromSlash(name))
	if err != nil {
		w.logUnwatched(name, err)
		return
	}
	entries, _ := dir.ReadDir(maxEntries)
	_ = dir.Close()
	for _, entry := range entries {
		file := path.Join(name, entry.Name())
		switch {
		case hidden(file) || !fs.ValidPath(file):
		case entry.IsDir() && w.watched[file]:
			w.scan(file, since)
		case entry.IsDir():
			w.watch(file)
		case len(w.updated) < maxPending:
			if info, err := entry.Info(); err == nil && !info.ModTime().Before(since) {
				w.updated[file], w.listChanged = true, true
			}
		}
	}
}

// unwatch stops watching a removed directory and its subdirectories.
func (w *Watcher) unwatch(name string) {
	for other := range w.watched {
		if other == name || strings.HasPrefix(other, name+"/") {
			_ = w.events.Remove(w.at(other)) // a renamed directory is still watched under its old name
			delete(w.watched, other)
		}
	}
}

// handleError handles an error of the system. If events were lost, it scans all directories.
func (w *Watcher) handleError(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.options.Logger.Warn("cannot receive all changes of a directory", "error", err)
		return
	}
	w.listChanged = true
	w.scan(".", w.reported.Add(-2*delay))
}
