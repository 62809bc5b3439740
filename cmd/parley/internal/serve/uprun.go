package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// upRun is a run of parley up with configuration files. Its steps use what the steps before them have set.
type upRun struct {
	*upFlags
	cmd        *cobra.Command
	upstreams  *upstreams
	loaded     *config.Config // when the program started
	paths      []string       // of the files that are watched
	before     dirwatch.State // of these files: what changes from here on is noticed
	listener   net.Listener   // nil with --stdio
	url        string         // of the endpoint; empty with --stdio
	logger     *slog.Logger
	server     *server.Server // at the endpoint
	protection *protection
	gateway    *gateway.Gateway

	ctx    context.Context // until the run ends
	cancel func()
	closes []func() // called in reverse order at the end
}

// up serves the servers of configuration files until the command ends.
func up(cmd *cobra.Command, flags *upFlags) error {
	r := &upRun{upFlags: flags, cmd: cmd}
	r.ctx, r.cancel = context.WithCancel(cmd.Context())
	defer func() {
		r.cancel()
		for _, end := range slices.Backward(r.closes) {
			end()
		}
	}()
	for _, step := range []func() error{
		r.load,
		r.listen, // before servers start, so that an address in use is an error at once
		r.checkCalls,
		r.newHost,
		r.newServer,
		r.authorize,
		r.configureServers,
		r.newGateway,
		r.start,
		r.serve,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// load reads the files and the values of their inputs.
func (r *upRun) load() (err error) {
	if r.maxMessage < 0 {
		return errors.New("--max-message must be a positive number of bytes")
	}
	u := &upstreams{cmd: r.cmd, files: &r.files, flags: r.upFlags, status: endpoint.NewStatus(r.cmd.ErrOrStderr())}
	r.upstreams, r.paths = u, u.watched(r.guard.lock)
	r.before = dirwatch.StateOf(r.paths...)
	if r.loaded, err = u.load(); err != nil {
		return err
	}
	u.values, err = r.files.Values(r.cmd)
	return err
}

// listen opens the endpoint, unless standard input and output are served.
func (r *upRun) listen() (err error) {
	if r.stdio {
		return nil
	}
	if r.listener, err = r.endpoint.Listen(r.cmd); err != nil {
		return err
	}
	r.closes = append(r.closes, func() { _ = r.listener.Close() })
	r.url = r.endpoint.Public.URL(r.listener)
	r.upstreams.status.Title(r.url, r.endpoint.Public.LocalURL(r.listener))
	return nil
}

// checkCalls reads what checks calls: the toolset of the endpoint, the policy, the webhooks, the lock file and the
// audit log.
func (r *upRun) checkCalls() (err error) {
	u := r.upstreams
	if u.standard, err = u.standardOf(r.loaded); err != nil {
		return err
	}
	if err := u.guard(&r.guard, r.loaded); err != nil {
		return err
	}
	r.closes = append(r.closes, func() { _ = u.audit.Close() }, u.rules.client.Close)
	return nil
}

// newHost makes the host of the servers, which it does not start.
func (r *upRun) newHost() error {
	r.logger = program.NewLogger(r.cmd.ErrOrStderr(), slog.LevelWarn)
	h := &host.Host{
		MaxName: r.maxName,
		Dialer: client.Dialer{Name: "parley", Version: program.Version(), Auth: &r.upstreams.authorizer,
			Logger: r.logger, MaxMessage: r.maxMessage},
		Logger: slog.New(slog.DiscardHandler), // the status prints the state of the servers
	}
	r.upstreams.host = h
	r.upstreams.applyGuard(h)
	if r.verbose {
		r.logger = program.NewLogger(r.cmd.ErrOrStderr(), slog.LevelInfo)
		h.Logger, h.Dialer.Logger = r.logger, r.logger
	}
	if r.endpoint.Log.Format == "json" {
		h.Logger = r.logger
	}
	if r.endpoint.Trace {
		t := recording.NewTracer(r.cmd.ErrOrStderr())
		h.AdaptDialer = func(server string, d *client.Dialer) {
			d.Trace = func(sent bool, message []byte) { t.Print(sent, server, message) }
		}
	}
	return nil
}

// newServer makes the server at the endpoint, with its store and its metrics.
func (r *upRun) newServer() error {
	r.server = newGatewayServer(r.logger)
	closeStore, err := r.endpoint.Store.Apply(r.cmd, r.server)
	if err != nil {
		return err
	}
	r.closes = append(r.closes, closeStore)
	admin := &r.endpoint.Admin
	for i, name := range admin.Require {
		if s, err := r.loaded.Find(name); err == nil {
			admin.Require[i] = s.Name
		}
	}
	if err := admin.Observe(r.cmd, r.server); err != nil {
		return err
	}
	r.closes = append(r.closes, admin.End)
	return nil
}

// authorize sets who may use the endpoint.
func (r *upRun) authorize() error {
	if r.listener != nil {
		r.endpoint.Public.Apply(r.server, r.listener)
	}
	var scopes []string
	for _, t := range r.loaded.Toolsets {
		scopes = append(scopes, t.Scopes...)
	}
	authorized, err := r.endpoint.Auth.Apply(r.server, r.listener, r.logger, scopes...)
	if err != nil {
		return err
	}
	r.closes = append(r.closes, func() { _ = authorized.Close() })
	u := r.upstreams
	u.audit.watchLogins(r.server.Auth)
	r.protection = &protection{authorized.Resource, u.audit}
	u.status.Authorization(authorized)
	if u.lock != nil { // it may have been found beside the configuration
		u.status.Print("  Offering the definitions of the lock file %s.\n\n", terminal.Line(u.lock.path))
	}
	return nil
}

// configureServers gives the host the servers of the files, with the logins of their callers, and serves the
// directories of --dir.
func (r *upRun) configureServers() (err error) {
	u := r.upstreams
	u.callers = newCallerAuths(r.server, r.url, &r.endpoint.Auth, r.logger, u.status, u.audit)
	r.endpoint.Login = u.callers
	if u.host.Servers, err = u.first(r.loaded); err != nil {
		return err
	}
	u.callers.print()
	served, err := r.dirs.serve(r.server, r.logger)
	if err != nil {
		return err
	}
	r.closes = append(r.closes, func() { _ = served.Close() })
	return nil
}

// newGateway connects the host with the endpoint, and prepares the toolsets.
func (r *upRun) newGateway() (err error) {
	u := r.upstreams
	if r.gateway, err = r.gatewayOf(r.server); err != nil {
		return err
	}
	if err := r.endpoint.Admin.ObserveHost(u.host, r.gateway); err != nil {
		return err
	}
	if u.standard != nil {
		r.gateway.Toolset = gatewayToolset(u.standard)
		if err := r.protection.limit(r.server, u.standard, ""); err != nil {
			return err
		}
	}
	u.toolsets = &toolsets{protection: r.protection, ctx: r.ctx, newGateway: r.toolsetGateway}
	return nil
}

func (r *upRun) gatewayOf(s *server.Server) (*gateway.Gateway, error) {
	g, err := gateway.New(r.upstreams.host, s)
	if err != nil {
		return nil, err
	}
	g.Logger, g.LocalUser = r.logger, endpoint.IsLocalUser
	return g, r.discover.apply(g, r.upstreams.status)
}

// toolsetGateway returns a gateway for a toolset, which has the store and the limits of the endpoint.
func (r *upRun) toolsetGateway() (*gateway.Gateway, *server.Server, error) {
	s := newGatewayServer(r.logger)
	s.Store, s.Keys = r.server.Store, r.server.Keys
	s.AllowedHosts, s.AllowedOrigins = r.server.AllowedHosts, r.server.AllowedOrigins
	r.endpoint.Limit(s)
	r.endpoint.Admin.ObserveToolset(s)
	g, err := r.gatewayOf(s)
	if err != nil {
		return nil, nil, err
	}
	g.OnSize = nil // only the gateway of the endpoint prints
	return g, s, nil
}

// start starts the servers and the toolsets.
func (r *upRun) start() error {
	u := r.upstreams
	below := u.below(r.loaded)
	serveToolsets, err := u.toolsets.prepare(below)
	if err != nil {
		return err
	}
	if err := u.host.Start(); err != nil {
		return err
	}
	serveToolsets()
	for _, t := range below {
		u.status.Print("  Toolset %s at %s/%[1]s\n", t.Name, r.url)
	}
	return nil
}

// serve serves clients until the command ends. Meanwhile it watches the files and the servers.
func (r *upRun) serve() (err error) {
	u := r.upstreams
	var watching sync.WaitGroup
	watching.Go(func() { r.gateway.Run(r.ctx) })
	watching.Go(func() { u.watch(r.ctx, r.cancel, r.paths, r.before) })
	watching.Go(func() { u.watchLogins(r.ctx) })
	watching.Go(func() {
		for status := range u.host.Watch(r.ctx) {
			// A user who sees that a server is ready can call its tools.
			if r.gateway.Await(r.ctx, status) != nil {
				return
			}
			u.checkRules(&status)
			if !r.verbose && r.endpoint.Log.Format != "json" { // otherwise the log has the changes
				u.status.Update(status)
			}
		}
	})
	if r.stdio {
		// A client that starts parley would list the tools before the servers are ready, and many do so only once.
		ready, cancel := context.WithTimeout(r.ctx, firstListsTimeout)
		_ = r.gateway.WaitReady(ready) // the status has the errors
		cancel()
		err = r.endpoint.ServeConn(r.ctx, r.cmd, r.server)
	} else {
		err = r.endpoint.Serve(r.ctx, r.cmd, r.listener, r.server, &u.toolsets.below)
	}
	r.cancel()
	watching.Wait()
	u.toolsets.running.Wait() // the gateways have ended with r.ctx
	if closeErr := u.host.Close(); closeErr != nil && r.verbose {
		r.logger.Warn("cannot close all servers", "error", closeErr)
	}
	return err
}

// firstListsTimeout limits the time that the client of standard input waits for the servers.
const firstListsTimeout = 10 * time.Second

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
