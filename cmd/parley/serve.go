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
		Short: "Serve demo tools or the files of a directory",
		Long: `Serve demo tools over HTTP or, with --stdio, over standard input and output. With --dir, serve
the files of a directory as resources, and notify clients when they change. To serve the
servers of a configuration file, see parley up.

` + authHelp + "\n\n" + storeHelp + "\n\n" + adminHelp,
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
			if cmd.Flags().Changed("addr") {
				return errors.New("cannot use --stdio with --addr; remove one of them")
			}
			if flags.auth.required() {
				return errors.New("cannot use --stdio with --auth; a client that starts the program needs no token")
			}
			if cmd.Flags().Changed("store") || cmd.Flags().Changed("key-file") {
				return errors.New("cannot use --stdio with --store or --key-file; they are for replicas that serve HTTP")
			}
			if cmd.Flags().Changed("admin") {
				return errors.New("cannot use --stdio with --admin; a client that starts the program operates it")
			}
			return serveStdio(cmd, &dirs, flags.trace)
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

// serveStdio serves standard input and output until the client closes them or a signal
// arrives. Neither is an error.
func serveStdio(cmd *cobra.Command, dirs *dirFlag, trace bool) error {
	s, served, err := newServer(cmd, dirs, false)
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
	s, served, err := newServer(cmd, dirs, flags.auth.dev)
	if err != nil {
		return err
	}
	defer served.Close()
	closeStore, err := flags.store.apply(cmd, s)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := flags.admin.observe(s); err != nil {
		return err
	}
	listener, err := flags.listen(cmd)
	if err != nil {
		return err
	}
	defer listener.Close()
	authorized, err := flags.auth.apply(s, listener, s.Logger)
	if err != nil {
		return err
	}
	defer authorized.Close()
	status := newStatusPrinter(cmd.ErrOrStderr())
	status.title(urlOf(listener))
	status.authorization(s.Auth, authorized.dev != nil)
	switch {
	case len(dirs.dirs) > 0:
		status.directories(urlOf(listener), dirs.dirs)
	case authorized.dev != nil:
		status.authorizedDemo(urlOf(listener))
	default:
		status.demo(urlOf(listener))
	}
	return flags.serve(cmd.Context(), cmd, listener, s, &toolsets{})
}
