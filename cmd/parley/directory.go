package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/dirwatch"
	"github.com/parley-mcp/parley/server"
)

// dirFlag is the flag of commands that serve directories.
type dirFlag struct{ dirs []string }

func (f *dirFlag) add(cmd *cobra.Command) {
	cmd.Flags().VarP((*repeated)(&f.dirs), "dir", "d", "serve the files of this `directory` (repeatable)")
}

// directories are directories that are served and watched.
type directories struct{ close []func() error }

// serve adds the files of the directories to s, with file URIs, and notifies the clients of
// changes. The caller closes the result after s is shut down.
func (f *dirFlag) serve(s *server.Server, logger *slog.Logger) (*directories, error) {
	all := new(directories)
	for _, dir := range f.dirs {
		if err := all.add(s, dir, logger); err != nil {
			return nil, errors.Join(err, all.Close())
		}
	}
	return all, nil
}

func (all *directories) add(s *server.Server, dir string, logger *slog.Logger) error {
	at, err := rootOf(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	all.close = append(all.close, root.Close)
	d := server.AddFS(s, at.URI, root, server.FSOptions{Name: at.Name, Description: "The files of " + at.Name})
	watcher, err := dirwatch.New(dir, dirwatch.Options{Logger: logger, OnChange: func(changes dirwatch.Changes) {
		for _, name := range changes.Updated {
			d.Updated(name)
		}
		if changes.ListChanged {
			d.ListChanged()
		}
	}})
	if err != nil { // the directory is served without notifications
		logger.Warn("cannot notify clients of changes in a directory", "directory", dir, "error", err)
		return nil
	}
	all.close = append(all.close, watcher.Close)
	return nil
}

// Close stops the watchers and closes the directories, in reverse order.
func (all *directories) Close() error {
	var errs []error
	for i := len(all.close) - 1; i >= 0; i-- {
		errs = append(errs, all.close[i]())
	}
	all.close = nil
	return errors.Join(errs...)
}
