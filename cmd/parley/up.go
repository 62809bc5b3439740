package main

import (
	"context"
	"errors"
	"log/slog"
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
	var files configFlags
	var maxName int
	var verbose bool
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Serve all servers of a configuration file at one endpoint",
		Long: `Start or connect to each server of a configuration file, and serve all their tools, resources
and prompts at one endpoint, in every revision of the protocol. With --dir, also serve the
files of directories. Without --config and --dir, serve demo tools.

A tool or prompt is called SERVER__NAME at the endpoint. If the name is too long for --max-name, its
end is replaced by a digest. Tools of a server whose names would be the same are withheld. A resource
keeps its URI; if two servers have the same URI, the second server's resource is at server:NAME/URI.

parley reads no configuration file that you do not name, because it starts the commands in it. A
command gets a minimal environment; add other variables to "env".

` + configHelp + `

If a server at a URL requires a login, parley uses the login of the user who runs parley up,
for all callers (see parley login). It does not forward the tokens of callers.

` + authHelp + "\n\n" + storeHelp,
		Example: `
parley up
parley up --config mcp.json --dir docs
parley up --config mcp.json --auth issuer=https://login.example.com
parley up --config mcp.json --store '${REDIS_URL}' --key-file keys`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files.paths) == 0 {
				return serveHTTP(cmd, &flags, &dirs)
			}
			return up(cmd, &flags, &dirs, &files, maxName, verbose)
		},
	}
	flags.add(cmd)
	dirs.add(cmd)
	files.add(cmd, "configuration file with the servers")
	cmd.Flags().IntVar(&maxName, "max-name", 0, "maximum length of the names of tools and prompts, 32 to 128 (default 128)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print log messages, and the stderr of the servers' programs")
	return cmd
}

func up(cmd *cobra.Command, flags *httpFlags, dirs *dirFlag, files *configFlags, maxName int, verbose bool) error {
	file, err := files.load(cmd)
	if err != nil {
		return err
	}
	values, err := files.values(cmd)
	if err != nil {
		return err
	}
	listener, err := flags.listen(cmd)
	if err != nil {
		return err
	}
	status := newStatusPrinter(cmd.ErrOrStderr())
	status.title(urlOf(listener))

	servers, err := targets(file, values, status)
	if err != nil {
		listener.Close()
		return err
	}
	h := &host.Host{
		Servers: servers,
		MaxName: maxName,
		Dialer:  client.Dialer{Name: "parley", Version: version(), Logger: slog.New(slog.DiscardHandler)},
		Logger:  slog.New(slog.DiscardHandler), // status prints the state of the servers
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
		Description: "The tools, resources and prompts of several servers. The names of tools and prompts begin with the name of their server.",
		Logger:      logger,
	}
	closeStore, err := flags.store.apply(cmd, s)
	if err != nil {
		listener.Close()
		return err
	}
	defer closeStore()
	authorized, err := flags.auth.apply(s, listener, logger)
	if err != nil {
		listener.Close()
		return err
	}
	defer authorized.Close()
	status.authorization(s.Auth, authorized.dev != nil)
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
	if !verbose { // the log has the state changes
		watching.Go(func() { status.watch(h.Watch(ctx)) })
	}
	err = flags.serve(cmd.Context(), cmd, listener, s)
	cancel()
	watching.Wait()
	if closeErr := h.Close(); closeErr != nil && verbose {
		logger.Warn("cannot close all servers", "error", closeErr)
	}
	return err
}

// targets returns the enabled servers of the files. It prints the servers that it skips because they
// are disabled or invalid. The error is that of the user who cancels the question for an input.
func targets(file *config.Config, values *config.Values, status *statusPrinter) ([]host.ServerConfig, error) {
	if len(file.Servers) == 0 {
		status.print("  %s has no servers; add servers to \"mcpServers\".\n\n", terminal.Line(file.Path()))
	}
	for _, p := range file.Problems {
		status.reserve(terminal.Line(p.Name))
	}
	for i := range file.Servers {
		status.reserve(file.Servers[i].Name)
	}
	for _, p := range file.Problems {
		status.failed(terminal.Line(p.Name), p.Err.Error())
	}
	var servers []host.ServerConfig
	for i := range file.Servers {
		s := &file.Servers[i]
		if s.Disabled {
			status.note(s.Name, "disabled")
			continue
		}
		target, err := s.Target(values)
		if cancelled := new(codeError); errors.As(err, &cancelled) {
			return nil, err
		}
		if err != nil {
			status.failed(s.Name, err.Error())
			continue
		}
		servers = append(servers, host.ServerConfig{Name: s.Name, Target: target})
	}
	return servers, nil
}
