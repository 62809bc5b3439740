package dirwatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// fileDelay is the time from a change of a single file until it is reported: a program that saves a file may truncate
// it first.
const fileDelay = 200 * time.Millisecond

// State describes files at one time.
type State []fileState

type fileState struct {
	path string      // to which symbolic links lead
	info fs.FileInfo // nil without a file
}

// StateOf returns the state of files, which need not exist. A program that reads files takes their state before.
func StateOf(paths ...string) State {
	state := make(State, len(paths))
	for i, path := range paths {
		state[i].path, _ = filepath.EvalSymlinks(path)
		state[i].info, _ = os.Stat(path)
	}
	return state
}

// Equal reports whether none of the files has been replaced or changed between two states.
func (s State) Equal(other State) bool {
	return slices.EqualFunc(s, other, func(a, b fileState) bool {
		return a.path == b.path && (a.info == nil) == (b.info == nil) && (a.info == nil || same(a.info, b.info))
	})
}

// Files reports changes of single files since they had a state, until ctx ends. It watches their directories, because
// programs replace files, and those of the symbolic links that lead to them, which can lead elsewhere later.
func Files(ctx context.Context, paths []string, before State) (<-chan struct{}, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	links := linkWatch{events: events}
	if err := links.follow(paths...); err != nil {
		return nil, errors.Join(err, events.Close())
	}
	changed := make(chan struct{}, 1)
	check := func() {
		_ = links.follow(paths...) // a directory that cannot be watched is tried again after the next event
		now := StateOf(paths...)
		if now.Equal(before) {
			return // another file of a directory
		}
		before = now
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	context.AfterFunc(ctx, func() { events.Close() })
	go func() {
		check() // what has changed before the directories were watched
		await(events, fileDelay, func(fsnotify.Event) bool { return true }, func(error) {}, check)
	}()
	return changed, nil
}

// linkWatch watches the directories in which a change can make paths lead elsewhere.
type linkWatch struct {
	events *fsnotify.Watcher
	paths  map[string]bool // symbolic links, and what the last of them lead to
	dirs   map[string]bool // that have these
}

// follow watches the directories for paths, and no longer those of the paths before.
func (l *linkWatch) follow(paths ...string) (err error) {
	for { // a link can change before its directory is watched
		found, dirs, added := make(map[string]bool), make(map[string]bool), false
		for _, path := range paths {
			for _, p := range leading(path) {
				found[p], dirs[filepath.Dir(p)] = true, true
			}
		}
		err = nil
		for dir := range dirs {
			// Also a directory that is watched already: another one can have its name since.
			err = errors.Join(err, l.events.Add(dir))
			added = added || !l.dirs[dir]
		}
		for dir := range l.dirs {
			if !dirs[dir] {
				_ = l.events.Remove(dir) // it may be removed already
			}
		}
		l.paths, l.dirs = found, dirs
		if !added || err != nil {
			return err
		}
	}
}

// maxLinks limits how many symbolic links lead to a file.
const maxLinks = 255

// leading returns the symbolic links that lead from path to a file or directory, whose own path is the last one. If
// that does not exist, the last path is the first one that does not exist.
func leading(path string) (all []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	const separator = string(filepath.Separator)
	volume := filepath.VolumeName(path) + separator
	at, rest := volume, strings.Split(strings.TrimPrefix(path, volume), separator)
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return append(all, next)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		all = append(all, next)
		target, err := os.Readlink(next)
		if err != nil || len(all) > maxLinks {
			return all
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(at, target)
		}
		volume = filepath.VolumeName(target) + separator
		at, rest = volume, append(strings.Split(strings.TrimPrefix(filepath.Clean(target), volume), separator), rest...)
	}
	return append(all, at)
}
