package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/dirwatch"
	"github.com/parley-mcp/parley/server"
)

// dirFlag is the flag of commands that serve directories.
type dirFlag struct{ dirs []string }

func (f *dirFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.dirs, "dir", "d", nil, "directory whose files to serve as resources (repeatable); dot files are left out")
}

// directories are being served, and watched.
type directories struct{ close []func() error }

// serve has s serve the files of the directories, under their file URIs, and tell its
// clients what changes in them. Close what it returns when s is shut down.
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
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
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
	if err != nil { // served it is all the same
		logger.Warn("clients will not be told what changes in a directory", "directory", dir, "error", err)
		return nil
	}
	all.close = append(all.close, watcher.Close)
	return nil
}

// Close ends the watches and closes the directories, the last first.
func (all *directories) Close() error {
	var errs []error
	for i := len(all.close) - 1; i >= 0; i-- {
		errs = append(errs, all.close[i]())
	}
	all.close = nil
	return errors.Join(errs...)
}
