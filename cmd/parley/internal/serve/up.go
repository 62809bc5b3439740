// Package serve has the commands that serve: up, serve, bridge, lock and ready.
package serve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func NewUp() *cobra.Command {
	var flags endpoint.Flags
	var dirs dirFlag
	var files dialing.ConfigFlags
	var discover discoverFlags
	var guard guardFlags
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up [flags]",
		Short: "Serve all servers of a configuration file at one endpoint",
		Long: `Start or connect to the servers of a configuration file, and serve all their tools, resources and prompts at
one endpoint. Without --config and --dir, serve demo tools. parley help configuration describes the file.`,
		Example: `
parley up
parley up --config mcp.json --dir docs
parley up --config mcp.json --auth issuer=https://login.example.com
parley up --config mcp.json --stdio`,
		Args: program.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.Log.Apply(cmd); err != nil {
				return err
			}
			if o.stdio {
				if err := flags.CheckStdio(cmd, "remove it or --stdio"); err != nil {
					return err
				}
			}
			if len(files.Paths) > 0 {
				return up(cmd, &flags, &dirs, &files, &discover, &guard, &o)
			}
			if err := checkWithoutConfig(cmd); err != nil {
				return err
			}
			if o.stdio {
				return serveStdio(cmd, &flags, &dirs)
			}
			return serveHTTP(cmd, &flags, &dirs)
		},
	}
	flags.Add(cmd)
	flags.Admin.AddRequire(cmd)
	dirs.add(cmd)
	files.Add(cmd)
	files.AddPolicy(cmd)
	discover.add(cmd)
	guard.add(cmd)
	cmd.Flags().BoolVar(&o.stdio, "stdio", false, "serve standard input and output instead of HTTP")
	cmd.Flags().StringVar(&o.toolset, "toolset", "", "serve the toolset with this `name` instead of the default")
	cmd.Flags().IntVar(&o.maxName, "max-name", 0, "maximum `length` of the names of tools, 32 to 128 (default 128)")
	cmd.Flags().IntVar(&o.maxMessage, "max-message", 0,
		"maximum size of a message from a server in `bytes` (default 16777216)")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print log messages, and the stderr of servers")
	return cmd
}

// upOptions are flags of parley up.
type upOptions struct {
	stdio      bool
	toolset    string
	maxName    int
	maxMessage int
	verbose    bool
}

// checkWithoutConfig returns an error if a flag is set that has an effect only on the servers of configuration files.
func checkWithoutConfig(cmd *cobra.Command) error {
	for _, name := range []string{"lock", "audit", "audit-values", "audit-required", "discover", "discover-over",
		"input",
		"max-message", "max-name", "policy", "require-ready", "toolset"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s requires the servers of a configuration file; add --config FILE", name)
		}
	}
	return nil
}

func up(cmd *cobra.Command, flags *endpoint.Flags, dirs *dirFlag, files *dialing.ConfigFlags, discover *discoverFlags,
	guard *guardFlags, o *upOptions) error {
	if o.maxMessage < 0 {
		return errors.New("--max-message must be a positive number of bytes")
	}
	u := &upstreams{cmd: cmd, files: files, options: o}
	paths := u.watched(guard.lock)
	before := dirwatch.StateOf(paths...) // what changes from here on is noticed
	loaded, err := u.load()
	if err != nil {
		return err
	}
	if u.values, err = files.Values(cmd); err != nil {
		return err
	}
	u.status = endpoint.NewStatus(cmd.ErrOrStderr())
	var listener net.Listener
	url := "" // of the endpoint; none with --stdio
	if !o.stdio {
		if listener, err = flags.Listen(cmd); err != nil {
			return err
		}
		defer listener.Close()
		url = flags.Public.URL(listener)
		u.status.Title(url, flags.Public.LocalURL(listener))
	}
	if u.standard, err = u.standardOf(loaded); err != nil {
		return err
	}

	if err := u.guard(guard, loaded); err != nil {
		return err
	}
	defer u.audit.Close()
	defer u.rules.client.Close()
	logger := program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	u.host = &host.Host{
		MaxName: o.maxName,
		Dialer: client.Dialer{Name: "parley", Version: program.Version(), Auth: &u.authorizer, Logger: logger,
			MaxMessage: o.maxMessage},
		Logger: slog.New(slog.DiscardHandler), // status prints the state of the servers
	}
	u.applyGuard(u.host)
	if o.verbose {
		logger = program.NewLogger(cmd.ErrOrStderr(), slog.LevelInfo)
		u.host.Logger, u.host.Dialer.Logger = logger, logger
	}
	if flags.Log.Format == "json" {
		u.host.Logger = logger
	}
	if flags.Trace {
		t := recording.NewTracer(cmd.ErrOrStderr())
		u.host.AdaptDialer = func(server string, d *client.Dialer) {
			d.Trace = func(sent bool, message []byte) { t.Print(sent, server, message) }
		}
	}
	s := newGatewayServer(logger)
	closeStore, err := flags.Store.Apply(cmd, s)
	if err != nil {
		return err
	}
	defer closeStore()
	for i, name := range flags.Admin.Require {
		if s, err := loaded.Find(name); err == nil {
			flags.Admin.Require[i] = s.Name
		}
	}
	if err := flags.Admin.Observe(cmd, s); err != nil {
		return err
	}
	defer flags.Admin.End()
	if listener != nil {
		flags.Public.Apply(s, listener)
	}
	var scopes []string
	for _, t := range loaded.Toolsets {
		scopes = append(scopes, t.Scopes...)
	}
	authorized, err := flags.Auth.Apply(s, listener, logger, scopes...)
	if err != nil {
		return err
	}
	defer authorized.Close()
	u.audit.watchLogins(s.Auth)
	protection := &protection{authorized.Resource, u.audit}
	u.status.Authorization(authorized)
	if u.lock != nil { // it may have been found beside the configuration
		u.status.Print("  Offering the definitions of the lock file %s.\n\n", terminal.Line(u.lock.path))
	}
	u.callers = newCallerAuths(s, url, &flags.Auth, logger, u.status, u.audit)
	flags.Login = u.callers
	if u.host.Servers, err = u.first(loaded); err != nil {
		return err
	}
	u.callers.print()
	served, err := dirs.serve(s, logger)
	if err != nil {
		return err
	}
	defer served.Close()
	g, err := gateway.New(u.host, s)
	if err != nil {
		return err
	}
	g.Logger = logger
	if err := discover.apply(g, u.status); err != nil {
		return err
	}
	if err := flags.Admin.ObserveHost(u.host, g); err != nil {
		return err
	}
	if u.standard != nil {
		g.Toolset = gatewayToolset(u.standard)
		if err := protection.limit(s, u.standard, ""); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	u.toolsets = &toolsets{protection: protection, ctx: ctx}
	u.toolsets.newGateway = func() (*gateway.Gateway, *server.Server, error) {
		of := newGatewayServer(logger)
		of.Store, of.Keys = s.Store, s.Keys
		of.AllowedHosts, of.AllowedOrigins = s.AllowedHosts, s.AllowedOrigins
		flags.Limit(of)
		flags.Admin.ObserveToolset(of)
		g, err := gateway.New(u.host, of)
		if err != nil {
			return nil, nil, err
		}
		g.Logger = logger
		err = discover.apply(g, u.status)
		g.OnCatalog = nil
		return g, of, err
	}
	below := u.below(loaded)
	serveToolsets, err := u.toolsets.prepare(below)
	if err != nil {
		return err
	}
	if err := u.host.Start(); err != nil {
		return err
	}
	serveToolsets()
	for _, t := range below {
		u.status.Print("  Toolset %s at %s/%[1]s\n", t.Name, url)
	}
	var watching sync.WaitGroup
	watching.Go(func() { g.Run(ctx) })
	watching.Go(func() { u.watch(ctx, cancel, paths, before) })
	watching.Go(func() { u.watchLogins(ctx) })
	watching.Go(func() {
		statuses := u.checked(registered(ctx, g, u.host.Watch(ctx)))
		if !o.verbose && flags.Log.Format != "json" {
			u.status.Watch(statuses)
		}
		for range statuses { // the log has the state changes
		}
	})
	if o.stdio {
		awaitFirstLists(ctx, g)
		err = flags.ServeConn(ctx, cmd, s)
	} else {
		err = flags.Serve(ctx, cmd, listener, s, &u.toolsets.below)
	}
	cancel()
	watching.Wait()
	u.toolsets.wait()
	if closeErr := u.host.Close(); closeErr != nil && o.verbose {
		logger.Warn("cannot close all servers", "error", closeErr)
	}
	return err
}

// firstListsTimeout limits the time that the client of standard input waits for the servers.
const firstListsTimeout = 10 * time.Second

// awaitFirstLists waits until the servers are ready or have failed. A client that starts parley would list the tools
// before that, and many clients do so only once.
func awaitFirstLists(ctx context.Context, g *gateway.Gateway) {
	ctx, cancel := context.WithTimeout(ctx, firstListsTimeout)
	defer cancel()
	_ = g.WaitReady(ctx) // the status has the errors
}

// registered yields statuses when the gateway has registered what they list, so that a user who sees that a server is
// ready can call its tools.
func registered(ctx context.Context, g *gateway.Gateway,
	statuses iter.Seq[host.ServerStatus]) iter.Seq[host.ServerStatus] {
	return func(yield func(host.ServerStatus) bool) {
		for status := range statuses {
			if g.Await(ctx, status) != nil || !yield(status) {
				return
			}
		}
	}
}

// newGatewayServer returns a server without tools.
func newGatewayServer(logger *slog.Logger) *server.Server {
	return &server.Server{
		Name:    "parley",
		Version: program.Version(),
		Info: mcp.Implementation{Title: "Parley", Description: "The tools, resources and prompts of several servers. " +
			"The names of tools and prompts begin with the name of their server."},
		Logger: logger,
	}
}

// defaultDiscoverOver is about 32,000 tokens.
const defaultDiscoverOver = 128 << 10

// discoverFlags are the flags for large catalogues.
type discoverFlags struct {
	mode string
	over int // bytes
}

func (f *discoverFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "discover", "auto",
		"`when` clients search for tools instead of listing them: auto, always or never")
	cmd.Flags().IntVar(&f.over, "discover-over", defaultDiscoverOver,
		"maximum size of the definitions of all listed tools, in `bytes`, with --discover auto; a token is about 4 "+
			"bytes")
}

// apply sets the budget of g, and prints when the list of tools changes because of it.
func (f *discoverFlags) apply(g *gateway.Gateway, status *endpoint.Status) error {
	switch f.mode {
	case "auto":
		if f.over <= 0 {
			return errors.New("--discover-over must be greater than 0; use --discover always or never")
		}
		g.ListBudget = f.over
	case "always":
		g.ListBudget = -1
	case "never":
	default:
		return fmt.Errorf("--discover must be auto, always or never, got %q", f.mode)
	}
	listed := true
	g.OnCatalog = func(c gateway.Catalog) {
		if c.Listed != listed {
			listed = c.Listed
			printCatalog(status, c, f.mode, f.over)
		}
	}
	return nil
}

// printCatalog prints whether the tools are listed.
func printCatalog(p *endpoint.Status, c gateway.Catalog, mode string, over int) {
	switch {
	case c.Listed:
		p.Note("tools", fmt.Sprintf("listed again: the definitions have %s, the limit is %s", kib(c.Bytes), kib(over)))
	case mode == "always":
		p.Note("tools", "not listed (--discover always): clients use search_tools, describe_tool and call_tool")
	default:
		p.Note("tools",
			fmt.Sprintf("not listed: the definitions have %s, the limit is %s (--discover-over); clients use "+
				"search_tools, describe_tool and call_tool",
				kib(c.Bytes), kib(over)))
	}
}

func kib(bytes int) string { return fmt.Sprintf("%.1f KiB", float64(bytes)/1024) }
