package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// changeDelay is the time from a change of a file until the file is read: a program that saves a file
// may truncate it first.
const changeDelay = 200 * time.Millisecond

// watchFiles reports changes of files until ctx ends. It watches their directories, because programs
// replace files and links.
func watchFiles(ctx context.Context, paths []string) (<-chan struct{}, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		for _, dir := range directoriesOf(path) {
			if err := events.Add(dir); err != nil {
				events.Close()
				return nil, err
			}
		}
	}
	changed, before := make(chan struct{}, 1), statesOf(paths)
	go func() {
		defer events.Close()
		var delay <-chan time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case <-events.Events:
			case <-events.Errors: // events were lost
			case <-delay:
				delay = nil
				now := statesOf(paths)
				if now == before {
					continue // another file of a directory
				}
				before = now
				select {
				case changed <- struct{}{}:
				default:
				}
				continue
			}
			if delay == nil { // otherwise a file that changes all the time would delay the report forever
				delay = time.After(changeDelay)
			}
		}
	}()
	return changed, nil
}

// directoriesOf returns the directories in which a change can change a file: its own, and that of the
// file to which it links.
func directoriesOf(path string) []string {
	dirs := []string{filepath.Dir(path)}
	if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(real) != dirs[0] {
		dirs = append(dirs, filepath.Dir(real))
	}
	return dirs
}

// statesOf identifies the current content of files by their sizes and times.
func statesOf(paths []string) string {
	var state strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprint(&state, info.Size(), " ", info.ModTime().UnixNano())
		}
		state.WriteByte('\n')
	}
	return state.String()
}
