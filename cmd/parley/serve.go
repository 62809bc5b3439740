package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/transport"
)

func newServe() *cobra.Command {
	var flags httpFlags
	var stdio bool
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve a few demo tools",
		Long:  "Serve a few demo tools over HTTP, or over standard input and output as the program that\nanother one starts. To serve the servers of a config file, see parley up.",
		Example: `
parley serve --addr 127.0.0.1:8080
parley ls -- parley serve --stdio`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !stdio {
				return serveDemo(cmd, &flags)
			}
			if cmd.Flags().Changed("addr") {
				return errors.New("--stdio and --addr exclude each other: leave one out")
			}
			return serveStdio(cmd, flags.trace)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&stdio, "stdio", false, "serve standard input and output instead of HTTP")
	return cmd
}

// serveStdio serves standard input and output until the client closes them. A
// signal ends it as well, and is as good an end as any.
func serveStdio(cmd *cobra.Command, trace bool) error {
	s := demo.New(version())
	s.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
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

func serveDemo(cmd *cobra.Command, flags *httpFlags) error {
	listener, err := flags.listen(cmd)
	if err != nil {
		return err
	}
	s := demo.New(version())
	s.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	b := newBoard(cmd.ErrOrStderr())
	b.title(urlOf(listener))
	b.demo(urlOf(listener))
	return flags.serve(cmd.Context(), cmd, listener, s)
}
