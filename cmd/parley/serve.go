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
files change. To serve the servers of a config file, see parley up.`,
		Example: `
parley serve --addr 127.0.0.1:8080
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
			return serveStdio(cmd, &dirs, flags.trace)
		},
	}
	flags.add(cmd)
	dirs.add(cmd)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve standard input and output instead of HTTP")
	return cmd
}

// newServed returns a server of directories, if there are any, and the demo server
// otherwise. Close the directories when it is shut down.
func newServed(cmd *cobra.Command, dirs *dirFlag) (*server.Server, *directories, error) {
	s := demo.New(version())
	if len(dirs.dirs) > 0 {
		s = &server.Server{Name: "parley-files", Title: "Parley files", Version: version(), Description: "The files of a directory"}
	}
	s.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	served, err := dirs.serve(s, s.Logger)
	return s, served, err
}

// serveStdio serves standard input and output until the client closes them. A
// signal ends it as well, and is as good an end as any.
func serveStdio(cmd *cobra.Command, dirs *dirFlag, trace bool) error {
	s, served, err := newServed(cmd, dirs)
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
	s, served, err := newServed(cmd, dirs)
	if err != nil {
		return err
	}
	defer served.Close()
	listener, err := flags.listen(cmd)
	if err != nil {
		return err
	}
	b := newBoard(cmd.ErrOrStderr())
	b.title(urlOf(listener))
	if len(dirs.dirs) == 0 {
		b.demo(urlOf(listener))
	} else {
		b.directories(urlOf(listener), dirs.dirs)
	}
	return flags.serve(cmd.Context(), cmd, listener, s)
}
