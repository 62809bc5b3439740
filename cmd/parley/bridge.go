package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/server"
)

// bridgeFlags are the flags of parley bridge.
type bridgeFlags struct {
	dialFlags
	http  httpFlags
	login bool
}

func newBridge() *cobra.Command {
	flags := bridgeFlags{http: httpFlags{stdio: true}}
	cmd := &cobra.Command{
		Use:   "bridge TARGET [flags]",
		Short: "Serve a server over another transport, or in another revision",
		Long: `Serve one server over standard input and output, for programs that can only start servers as
commands. With --addr, serve it over HTTP instead, for programs that can only connect to URLs.

The client and the server may use different transports and revisions of the protocol. Names are those of the server,
and its questions and reports reach the client. parley uses the login of parley login.

` + targetHelp + "\n\n" + endpointHelp,
		Example: `
parley bridge https://example.com/mcp
parley bridge --config mcp.json files
parley bridge --addr 127.0.0.1:8080 -- ./my-server`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := onlyTarget(cmd, args)
			if err != nil {
				return err
			}
			if err := flags.http.apply(cmd); err != nil {
				return err
			}
			return bridge(cmd, &flags, target)
		},
	}
	flags.addTo(cmd, "end a call if the server sends nothing for this `time`, such as 90s (default 10m)")
	flags.http.add(cmd)
	cmd.Flags().BoolVar(&flags.login, "login", false, "log in with the browser if the server requires a login and there is none")
	completes(cmd, &flags, completeTarget, completeNothing)
	return cmd
}

func bridge(cmd *cobra.Command, flags *bridgeFlags, words []string) error {
	d, target, err := flags.dialer(cmd, words)
	if err != nil {
		return err
	}
	if err := flags.http.admin.begin(cmd); err != nil {
		return err
	}
	if flags.http.admin.metrics != nil {
		d.Middleware = append(d.Middleware, flags.http.admin.metrics.client("server"))
	}
	h, err := connect(cmd.Context(), d, target, host.ShareAutomatically)
	if needed := new(loginError); flags.login && errors.As(err, &needed) {
		status, failed := login(cmd, &loginFlags{timeout: loginTimeout}, needed.server)
		if failed != nil {
			return failed
		}
		if err := printNewLogin(cmd.ErrOrStderr(), status); err != nil { // stdout has the messages of the client
			return err
		}
		h, err = connect(cmd.Context(), d, target, host.ShareAutomatically)
	}
	if err != nil {
		return unreachable(err)
	}
	defer h.Close()
	return serveHost(cmd, h, flags.timeout, func(ctx context.Context, s *server.Server) error {
		flags.http.trace = flags.trace
		if flags.http.addr == "" {
			return flags.http.serveStreamAlone(ctx, cmd, s, s.ServeConn)
		}
		return flags.http.serveAlone(cmd, s, nil)
	})
}

// serveHost calls serve with a server that has what the server of a host has. Timeout limits the time without a message
// during a call.
func serveHost(cmd *cobra.Command, h *host.Host, timeout time.Duration, serve func(ctx context.Context, s *server.Server) error) error {
	s := bridgeServer(&h.Status()[0].Server)
	s.Logger = newLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	g, err := gateway.New(h, s)
	if err != nil {
		return err
	}
	g.Logger, g.Timeout = s.Logger, timeout
	ctx, cancel := context.WithCancel(cmd.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { g.Run(ctx) })
	if err := g.WaitReady(ctx); err != nil {
		return err
	}
	return serve(ctx, s)
}

// connect returns a host of one server, which is ready.
func connect(ctx context.Context, d *client.Dialer, target client.Target, sharing host.Sharing) (*host.Host, error) {
	// The name is for errors and the log. Without a prefix, the names of tools are those of the server.
	h := &host.Host{Dialer: *d, Logger: d.Logger, Servers: []host.ServerConfig{{Name: "server", Target: target, Sharing: sharing, Prefix: new("")}}}
	if d.Trace != nil {
		h.Trace = func(_ string, sent bool, message []byte) { d.Trace(sent, message) }
	}
	if err := link.Get[link.Host[host.Host, host.ServerStatus, host.Request]]().Forward(h); err != nil { // the gateway is made later
		return nil, err
	}
	if err := h.Start(); err != nil {
		return nil, err
	}
	if err := h.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// bridgeServer returns a server without tools that has the name of another one.
func bridgeServer(of *client.ServerDetails) *server.Server {
	return &server.Server{
		Name: of.Info.Name, Title: of.Info.Title, Version: of.Info.Version, Description: of.Info.Description,
		WebsiteURL: of.Info.WebsiteURL, Icons: of.Info.Icons,
	}
}
