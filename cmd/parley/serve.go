package main

import (
	"errors"
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
		Short: "Serve a few demo tools, or the files of a directory",
		Long: `Serve a few demo tools, or with --dir the files of a directory as resources, over HTTP, or over
standard input and output as the program that another one starts. Clients are told when the
files change. To serve the servers of a config file, see parley up.

` + authHelp,
		Example: `
parley serve --addr 127.0.0.1:8080
parley serve --auth dev
parley serve --dir .
parley ls -- parley serve --stdio`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !stdio {
				return serveHTTP(cmd, &flags, &dirs)
			}
			if cmd.Flags().Changed("addr") {
				return errors.New("--stdio and --addr exclude each other: leave one out")
			}
			if flags.auth.wanted() {
				return errors.New("--stdio and --auth exclude each other: whoever starts a program needs no token")
			}
			return serveStdio(cmd, &dirs, flags.trace)
		},
	}
	flags.add(cmd)
	dirs.add(cmd)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve standard input and output instead of HTTP")
	return cmd
}

// newServed returns a server of directories, if there are any, and the demo server
// otherwise, which if it is guarded has something for those who log in. Close the
// directories when it is shut down.
func newServed(cmd *cobra.Command, dirs *dirFlag, guarded bool) (*server.Server, *directories, error) {
	var s *server.Server
	switch {
	case len(dirs.dirs) == 0 && guarded:
		s = demo.NewGuarded(version())
	case len(dirs.dirs) == 0:
		s = demo.New(version())
	default:
		s = &server.Server{Name: "parley-files", Title: "Parley files", Version: version(), Description: "The files of a directory"}
	}
	s.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	served, err := dirs.serve(s, s.Logger)
	return s, served, err
}

// serveStdio serves standard input and output until the client closes them. A
// signal ends it as well, and is as good an end as any.
func serveStdio(cmd *cobra.Command, dirs *dirFlag, trace bool) error {
	s, served, err := newServed(cmd, dirs, false)
	if err != nil {
		return err
	}
	defer served.Close()
	conn, err := transport.Stdio(transport.StdioOptions{})
	if err != nil {
		return err
	}
	if trace {
		conn = newTracer(cmd.ErrOrStderr()).conn(conn, "client")
	}
	err = s.ServeConn(cmd.Context(), conn)
	if cmd.Context().Err() != nil {
		return nil
	}
	return err
}

func serveHTTP(cmd *cobra.Command, flags *httpFlags, dirs *dirFlag) error {
	if flags.auth.dev && len(dirs.dirs) == 0 && flags.auth.scopes == nil {
		flags.auth.scopes = []string{demo.ScopeUse}
	}
	s, served, err := newServed(cmd, dirs, flags.auth.dev)
	if err != nil {
		return err
	}
	defer served.Close()
	listener, err := flags.listen(cmd)
	if err != nil {
		return err
	}
	guard, err := flags.auth.protect(s, listener, s.Logger)
	if err != nil {
		listener.Close()
		return err
	}
	defer guard.Close()
	b := newBoard(cmd.ErrOrStderr())
	b.title(urlOf(listener))
	b.protected(s.Auth, guard.dev != nil)
	switch {
	case len(dirs.dirs) > 0:
		b.directories(urlOf(listener), dirs.dirs)
	case guard.dev != nil:
		b.guardedDemo(urlOf(listener))
	default:
		b.demo(urlOf(listener))
	}
	return flags.serve(cmd.Context(), cmd, listener, s)
}
