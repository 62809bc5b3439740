package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func NewServe() *cobra.Command {
	var flags endpoint.Flags
	var dirs dirFlag
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve demo tools or the files of a directory",
		Long: `Serve demo tools over HTTP or, with --stdio, over standard input and output. With --dir, serve the files of a
directory as resources, and notify clients when they change. parley up serves the servers of a configuration file.

` + endpoint.Help,
		Example: `
parley serve --addr 127.0.0.1:8080
parley serve --auth dev
parley serve --dir .
parley serve --store redis://127.0.0.1:6379 --key-file store.keys
parley ls -- parley serve --stdio`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.Apply(cmd, stdio, "remove it or --stdio"); err != nil {
				return err
			}
			return serveWithoutConfig(cmd, &flags, &dirs)
		},
	}
	flags.Add(cmd)
	dirs.add(cmd)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve standard input and output instead of HTTP")
	return cmd
}

// newServer returns a server of the directories, or the demo server if there are none. If authorized is true, the demo
// server has tools that require a login. The caller closes the directories after the server is shut down.
func newServer(cmd *cobra.Command, dirs *dirFlag, authorized bool) (*server.Server, *directories, error) {
	var s *server.Server
	switch {
	case len(dirs.dirs) == 0 && authorized:
		s = demo.NewAuthorized(program.Version())
	case len(dirs.dirs) == 0:
		s = demo.New(program.Version())
	default:
		s = &server.Server{Name: "parley-files", Version: program.Version(),
			Info: mcp.Implementation{Title: "Parley files", Description: "The files of a directory"}}
	}
	s.Logger = program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	served, err := dirs.serve(s, s.Logger)
	return s, served, err
}

// serveWithoutConfig serves demo tools or directories.
func serveWithoutConfig(cmd *cobra.Command, flags *endpoint.Flags, dirs *dirFlag) error {
	if flags.Auth.Dev && len(dirs.dirs) == 0 && flags.Auth.Scopes == nil {
		flags.Auth.Scopes = []string{demo.ScopeUse}
	}
	s, served, err := newServer(cmd, dirs, flags.Auth.Dev)
	if err != nil {
		return err
	}
	defer served.Close()
	return flags.ServeAlone(cmd, s, func(status *endpoint.Status, url string, dev bool) {
		const last = "Stop with Ctrl-C. Serve your own servers with parley up --config mcp.json."
		switch {
		case len(dirs.dirs) > 0:
			status.Examples("the files of "+terminal.Line(strings.Join(dirs.dirs, ", ")), "", "ls "+url, "watch "+url)
		case dev:
			status.Examples("demo tools", last, "login "+url, "call "+url+" whoami", "call "+url+" note text=Hello",
				"login --scope "+demo.ScopeNotes+" "+url, "logout "+url)
		default:
			status.Examples("demo tools", last, "ls "+url, "call "+url+" greet name=Ada", "call "+url+" count to=20",
				"call "+url+" book_table restaurant=Maaemo")
		}
	})
}

// dirFlag is the flag of commands that serve directories.
type dirFlag struct{ dirs []string }

func (f *dirFlag) add(cmd *cobra.Command) {
	cmd.Flags().VarP((*program.Repeated)(&f.dirs), "dir", "d", "serve the files of this `directory` (repeatable)")
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
	at, err := dialing.RootOf(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	served := &directory{server: s, path: dir, root: at, current: root}
	served.serve()
	all.close = append(all.close, served.Close)
	watcher, err := dirwatch.New(dir, logger, func(changes dirwatch.Changes) {
		if changes.Moved {
			if err := served.move(); err != nil {
				logger.Warn("cannot open the directory to which the path leads now", "directory", dir, "error", err)
				return
			}
		}
		for _, name := range changes.Updated {
			served.files.Updated(name)
		}
		if changes.ListChanged {
			served.files.ListChanged()
		}
	})
	if err != nil { // the directory is served without notifications
		logger.Warn("cannot notify clients of changes in a directory", "directory", dir, "error", err)
		return nil
	}
	all.close = append(all.close, watcher.Close)
	return nil
}

// directory is a directory that is served. Its path can have symbolic links, which can lead to another directory later.
type directory struct {
	server          *server.Server
	path            string
	root            mcp.Root // its URI is the one of the path
	files           *server.Directory
	current, before *os.Root // before can have reads in flight
}

func (d *directory) serve() {
	d.files = server.AddFS(d.server, d.root.URI, d.current, server.FSOptions{Name: d.root.Name,
		Description: "The files of " + d.root.Name})
}

// move serves the directory to which the path leads now.
func (d *directory) move() error {
	now, err := os.OpenRoot(d.path)
	if err != nil {
		return err
	}
	if !d.server.RemoveTemplate(strings.TrimSuffix(d.root.URI, "/") + "/{+path}") {
		return errors.Join(errors.New("the directory is not served"), now.Close())
	}
	if d.before != nil {
		_ = d.before.Close() // it was only read
	}
	d.before, d.current = d.current, now
	d.serve()
	return nil
}

// Close closes the directory.
func (d *directory) Close() error {
	err := d.current.Close()
	if d.before != nil {
		err = errors.Join(err, d.before.Close())
	}
	return err
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
