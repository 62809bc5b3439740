// Package dirwatch tells when files change below a directory.
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
	// settle is how long changes gather before they are told: a program that saves a
	// file changes it several times.
	settle = 100 * time.Millisecond
	// maxPending is how many files are gathered at most; then they are told at once.
	maxPending = 1000
	// DefaultMaxDirectories is how many directories are watched. Systems give every user
	// so many (fs.inotify.max_user_watches on Linux).
	DefaultMaxDirectories = 2000
	maxDepth              = 32
	maxEntries            = 10_000 // of one directory that are looked at when it appears
)

// Changes are what has happened since the last were told. Names are paths below the
// directory, with slashes.
type Changes struct {
	Updated []string // files that were written, have come or gone; sorted
	Listed  bool     // files have come or gone
}

// Options say how to watch.
type Options struct {
	// Told is given the changes, one after the other. It must not call Close.
	Told func(Changes)
	// Logger takes what keeps changes from being noticed.
	Logger *slog.Logger
	// MaxDirectories bounds the directories that are watched, those in others included;
	// 0: DefaultMaxDirectories. Changes in more of them are not noticed, which is logged.
	MaxDirectories int
}

// Watcher watches a directory and those in it, those that come later too. What begins
// with a dot is left alone, and symbolic links are not followed.
type Watcher struct {
	path    string // of root
	root    *os.Root
	options Options
	events  *fsnotify.Watcher
	done    chan struct{} // closed when run has returned

	// Of the goroutine of run.
	watched map[string]bool // by path below root
	updated map[string]bool
	listed  bool
	full    bool      // that there are too many directories has been logged
	told    time.Time // when changes were last looked for
}

// New watches the directory dir until Close.
func New(dir string, options Options) (*Watcher, error) {
	if options.MaxDirectories <= 0 {
		options.MaxDirectories = DefaultMaxDirectories
	}
	dir, err := filepath.EvalSymlinks(dir) // the one link that is followed: the one that was named
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
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	w := &Watcher{
		path: dir, root: root, options: options, events: events, done: make(chan struct{}),
		watched: make(map[string]bool), updated: make(map[string]bool), told: time.Now(),
	}
	w.watched["."] = true
	w.enter(".", time.Time{})
	clear(w.updated)
	w.listed = false
	go w.run()
	return w, nil
}

// Close ends the watch. When it has returned, nothing more is told.
func (w *Watcher) Close() error {
	err := w.events.Close()
	<-w.done
	return errors.Join(err, w.root.Close())
}

func (w *Watcher) run() {
	defer close(w.done)
	timer := time.NewTimer(settle)
	timer.Stop()
	waiting := false
	for {
		select {
		case e, open := <-w.events.Events:
			if !open {
				timer.Stop()
				return
			}
			w.take(e)
		case err, open := <-w.events.Errors:
			if !open {
				timer.Stop()
				return
			}
			w.failed(err)
		case <-timer.C:
			waiting = false
			w.tell()
			continue
		}
		switch {
		case len(w.updated) >= maxPending:
			w.tell()
		case !waiting && (w.listed || len(w.updated) > 0):
			waiting = true
			timer.Reset(settle)
		}
	}
}

// tell tells what has gathered.
func (w *Watcher) tell() {
	if !w.listed && len(w.updated) == 0 {
		return
	}
	w.told = time.Now()
	changes := Changes{Updated: slices.Sorted(maps.Keys(w.updated)), Listed: w.listed}
	clear(w.updated)
	w.listed = false
	w.options.Told(changes)
}

// take takes one event.
func (w *Watcher) take(e fsnotify.Event) {
	name, ok := w.below(e.Name)
	switch {
	case !ok:
	case e.Has(fsnotify.Create):
		w.appeared(name)
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename): // renamed: the new name appears by itself
		w.listed = true
		if w.watched[name] {
			w.leave(name)
		} else {
			w.updated[name] = true
		}
	case e.Has(fsnotify.Write):
		if !w.watched[name] {
			w.updated[name] = true
		}
	}
}

// below returns the path below the directory of what is watched.
func (w *Watcher) below(file string) (name string, ok bool) {
	relative, err := filepath.Rel(w.path, file)
	if err != nil {
		return "", false
	}
	name = filepath.ToSlash(relative)
	return name, name != "." && fs.ValidPath(name) && !hidden(name)
}

func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// appeared is for a name that was not there before, or names something else now.
func (w *Watcher) appeared(name string) {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	switch {
	case err != nil: // it has gone already, which is told by itself
	case info.IsDir():
		w.follow(name)
		w.listed = true
	default:
		w.updated[name], w.listed = true, true
	}
}

func (w *Watcher) at(name string) string { return filepath.Join(w.path, filepath.FromSlash(name)) }

// follow watches a directory that has appeared, and takes what is in it already.
func (w *Watcher) follow(name string) {
	switch {
	case w.watched[name]:
	case len(w.watched) >= w.options.MaxDirectories || strings.Count(name, "/") >= maxDepth:
		if !w.full {
			w.full = true
			w.options.Logger.Warn("changes in some directories are not noticed: there are too many, or they are too deep", "first", name, "watched", len(w.watched))
		}
		return
	default:
		if err := w.events.Add(w.at(name)); err != nil {
			w.unnoticed(name, err)
			return
		}
		// A link that has taken its place meanwhile would have been followed.
		if info, err := w.root.Lstat(filepath.FromSlash(name)); err != nil || !info.IsDir() {
			_ = w.events.Remove(w.at(name))
			return
		}
		w.watched[name] = true
	}
	w.enter(name, time.Time{})
}

// unnoticed says that changes in a directory will not be.
func (w *Watcher) unnoticed(name string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		w.options.Logger.Warn("changes in a directory are not noticed", "directory", name, "error", err)
	}
}

// enter takes what was written since a time in a directory and those in it.
func (w *Watcher) enter(name string, since time.Time) {
	dir, err := w.root.Open(filepath.FromSlash(name))
	if err != nil {
		w.unnoticed(name, err)
		return
	}
	entries, _ := dir.ReadDir(maxEntries)
	_ = dir.Close()
	for _, entry := range entries {
		below := path.Join(name, entry.Name())
		switch {
		case hidden(below) || !fs.ValidPath(below):
		case entry.IsDir() && w.watched[below]:
			w.enter(below, since)
		case entry.IsDir():
			w.follow(below)
		case len(w.updated) < maxPending:
			if info, err := entry.Info(); err == nil && !info.ModTime().Before(since) {
				w.updated[below], w.listed = true, true
			}
		}
	}
}

// leave ends the watch of a directory that has gone, and of those in it.
func (w *Watcher) leave(name string) {
	for other := range w.watched {
		if other == name || strings.HasPrefix(other, name+"/") {
			_ = w.events.Remove(w.at(other)) // it may watch on under another name
			delete(w.watched, other)
		}
	}
}

// failed takes an error of the system's. If events were lost, everything is looked at.
func (w *Watcher) failed(err error) {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		w.options.Logger.Warn("watching a directory", "error", err)
		return
	}
	w.listed = true
	w.enter(".", w.told.Add(-2*settle))
}
