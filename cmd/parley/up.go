package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

func newUp() *cobra.Command {
	var flags httpFlags
	var dirs dirFlag
	var file string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Serve all servers of a config file behind one endpoint",
		Long: `Start or dial each server of a config file, and serve all their tools, resources and prompts
behind one endpoint, in every revision of the protocol. The name of a tool or prompt there is
its server's name, two underscores, and its own name; resources keep their URIs, and one that
an earlier server has is found at server:NAME/URI. With --dir there are the files of directories
beside them. Without either, a few demo tools are served.

The file is JSON, in which comments may stand. In "mcpServers" it has for each server either
"command", "args", "env" and "cwd" (relative to the file), or "url" and "headers"; "type" may
stand with both, "disabled": true leaves a server out. ${NAME} and ${NAME:-default} stand
for variables of the environment. A command gets no more of parley's environment than
programs need to run: name in "env" what else it is to have.

No file is read that --config does not name: what it names is run.

A server at a URL that wants a login is called with yours: see parley login. One login serves
all callers; theirs go to no server.

` + authHelp,
		Example: `
parley up
parley up --config mcp.json --dir docs
parley up --config mcp.json --auth issuer=https://login.example.com`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return serveHTTP(cmd, &flags, &dirs)
			}
			return up(cmd, &flags, &dirs, file, verbose)
		},
	}
	flags.add(cmd)
	dirs.add(cmd)
	cmd.Flags().StringVarP(&file, "config", "c", "", "file with the servers")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what becomes of the servers, and what they write to stderr")
	return cmd
}

func up(cmd *cobra.Command, flags *httpFlags, dirs *dirFlag, path string, verbose bool) error {
	file, err := loadConfig(cmd, path)
	if err != nil {
		return err
	}
	listener, err := flags.listen(cmd)
	if err != nil {
		return err
	}
	b := newBoard(cmd.ErrOrStderr())
	b.title(urlOf(listener))

	servers := targets(file, b)
	h := &host.Host{
		Servers: servers,
		Dialer:  client.Dialer{Name: "parley", Version: version(), Logger: slog.New(slog.DiscardHandler)},
		Logger:  slog.New(slog.DiscardHandler), // the board says it
	}
	var dialled []client.Target
	for _, one := range servers {
		dialled = append(dialled, one.Target)
	}
	if h.Dialer.Auth, err = authorizerFor(cmd.Context(), dialled...); err != nil {
		listener.Close()
		return err
	}
	logger := newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	if verbose {
		logger = newLogger(cmd.ErrOrStderr(), slog.LevelInfo)
		h.Logger, h.Dialer.Logger = logger, logger
	}
	if flags.trace {
		t := newTracer(cmd.ErrOrStderr())
		h.Trace = func(server string, sent bool, message []byte) { t.print(sent, server, message) }
	}
	s := &server.Server{
		Name:        "parley",
		Title:       "Parley",
		Version:     version(),
		Description: "The tools, resources and prompts of several servers; a tool's or prompt's name begins with its server's",
		Logger:      logger,
	}
	guard, err := flags.auth.protect(s, listener, logger)
	if err != nil {
		listener.Close()
		return err
	}
	defer guard.Close()
	b.protected(s.Auth, guard.dev != nil)
	served, err := dirs.serve(s, logger)
	if err != nil {
		listener.Close()
		return err
	}
	defer served.Close()
	g := gateway.New(h, s)
	g.Logger = logger
	if err := h.Start(); err != nil {
		listener.Close()
		return err
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	var watching sync.WaitGroup
	watching.Go(func() { g.Run(ctx) })
	watching.Go(func() { b.watch(h.Watch(ctx)) })
	err = flags.serve(cmd.Context(), cmd, listener, s)
	cancel()
	watching.Wait()
	if closing := h.Close(); closing != nil && verbose {
		logger.Warn("not everything ended as it should", "error", closing)
	}
	return err
}

// targets returns what to dial. A server whose part of the file cannot be used is
// shown as such, and left out.
func targets(file *config.File, b *board) []host.ServerConfig {
	if len(file.Servers) == 0 {
		b.print("  %s names no servers: add some to its \"mcpServers\".\n\n", terminal.Line(file.Path))
	}
	var servers []host.ServerConfig
	for i := range file.Servers {
		s := &file.Servers[i]
		b.expect(s.Name)
		if s.Disabled {
			b.note(s.Name, "disabled")
			continue
		}
		target, err := s.Target(os.LookupEnv)
		if err != nil {
			b.failed(s.Name, fmt.Sprint(err))
			continue
		}
		servers = append(servers, host.ServerConfig{Name: s.Name, Target: target})
	}
	return servers
}
