package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func newServe() *cobra.Command {
	var flags httpFlags
	var dirs dirFlag
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve demo tools or the files of a directory",
		Long: `Serve demo tools over HTTP or, with --stdio, over standard input and output. With --dir, serve the files of a directory
as resources, and notify clients when they change. parley up serves the servers of a configuration file.

` + endpointHelp,
		Example: `
parley serve --addr 127.0.0.1:8080
parley serve --auth dev
parley serve --dir .
parley serve --store redis://127.0.0.1:6379 --key-file keys
parley ls -- parley serve --stdio`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.log.apply(cmd); err != nil {
				return err
			}
			if !stdio {
				return serveHTTP(cmd, &flags, &dirs)
			}
			if err := flags.checkStdio(cmd, "remove it or --stdio"); err != nil {
				return err
			}
			return serveStdio(cmd, &flags, &dirs)
		},
	}
	flags.add(cmd)
	dirs.add(cmd)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve standard input and output instead of HTTP")
	return cmd
}

// newServer returns a server of the directories, or the demo server if there are none. If
// authorized is true, the demo server has tools that require a login. The caller closes the
// directories after the server is shut down.
func newServer(cmd *cobra.Command, dirs *dirFlag, authorized bool) (*server.Server, *directories, error) {
	var s *server.Server
	switch {
	case len(dirs.dirs) == 0 && authorized:
		s = demo.NewAuthorized(version())
	case len(dirs.dirs) == 0:
		s = demo.New(version())
	default:
		s = &server.Server{Name: "parley-files", Title: "Parley files", Version: version(), Description: "The files of a directory"}
	}
	s.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	served, err := dirs.serve(s, s.Logger)
	return s, served, err
}

// serveStdio serves demo tools or directories over standard input and output.
func serveStdio(cmd *cobra.Command, flags *httpFlags, dirs *dirFlag) error {
	s, served, err := newServer(cmd, dirs, false)
	if err != nil {
		return err
	}
	defer served.Close()
	return flags.serveStreamAlone(cmd.Context(), cmd, s, s.ServeConn)
}

// serveStreamAlone is serveAlone for standard input and output, with serve instead of s.ServeConn.
func (f *httpFlags) serveStreamAlone(ctx context.Context, cmd *cobra.Command, s *server.Server, serve func(context.Context, transport.Conn) error) error {
	if err := f.admin.observe(cmd, s); err != nil {
		return err
	}
	defer f.admin.end()
	return f.serveStream(ctx, cmd, serve)
}

// serveConn serves standard input and output until the client closes them or ctx ends. Neither is an error.
func (f *httpFlags) serveConn(ctx context.Context, cmd *cobra.Command, s *server.Server) error {
	return f.serveStream(ctx, cmd, s.ServeConn)
}

// serveStream calls serve with standard input and output, as serveConn does.
func (f *httpFlags) serveStream(ctx context.Context, cmd *cobra.Command, serve func(context.Context, transport.Conn) error) error {
	o, err := f.observer(cmd, "parley "+cmd.Name()+" --stdio")
	if err != nil {
		return err
	}
	conn, err := transport.Stdio(transport.StdioOptions{})
	if err != nil {
		return err
	}
	err = serve(ctx, o.conn(conn))
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func serveHTTP(cmd *cobra.Command, flags *httpFlags, dirs *dirFlag) error {
	if flags.auth.dev && len(dirs.dirs) == 0 && flags.auth.scopes == nil {
		flags.auth.scopes = []string{demo.ScopeUse}
	}
	s, served, err := newServer(cmd, dirs, flags.auth.dev)
	if err != nil {
		return err
	}
	defer served.Close()
	return flags.serveAlone(cmd, s, func(status *statusPrinter, url string, dev bool) {
		switch {
		case len(dirs.dirs) > 0:
			status.directories(url, dirs.dirs)
		case dev:
			status.authorizedDemo(url)
		default:
			status.demo(url)
		}
	})
}
