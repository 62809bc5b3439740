package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// bridgeFlags are the flags of parley bridge.
type bridgeFlags struct {
	dialing.Flags
	http  endpoint.Flags
	login bool
}

// NewBridge returns parley bridge. Login logs in to the server at a URL, without writing to stdout, which carries the
// messages to the client.
func NewBridge(login func(cmd *cobra.Command, url string) error) *cobra.Command {
	flags := bridgeFlags{http: endpoint.Flags{Stdio: true}}
	cmd := &cobra.Command{
		Use:   "bridge TARGET [flags]",
		Short: "Serve a server over another transport, or in another revision",
		Long: `Serve one server over standard input and output, for programs that can only start servers as
commands. With --addr, serve it over HTTP instead, for programs that can only connect to URLs.

The client and the server may use different transports and revisions of the protocol. Tools keep their names, and the
client receives the server's questions and progress. parley uses the login of parley login.

` + dialing.TargetHelp + "\n\n" + endpoint.Help,
		Example: `
parley bridge https://example.com/mcp
parley bridge --config mcp.json files
parley bridge --addr 127.0.0.1:8080 -- ./my-server`,
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			if err := flags.http.Apply(cmd, flags.http.Addr == "", "add --addr"); err != nil {
				return err
			}
			return bridge(cmd, &flags, target, login)
		}),
	}
	flags.AddTo(cmd, "end a call if the server sends nothing for this `time`, such as 90s (default 10m)")
	flags.http.Add(cmd)
	cmd.Flags().BoolVar(&flags.login, "login", false,
		"log in with the browser if the server requires a login and there is none")
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func bridge(cmd *cobra.Command, flags *bridgeFlags, words []string, login func(*cobra.Command, string) error) error {
	d, target, err := flags.Dialer(cmd, words)
	if err != nil {
		return err
	}
	if err := flags.http.Admin.Begin(cmd); err != nil {
		return err
	}
	if flags.http.Admin.Metrics != nil {
		d.Middleware = append(d.Middleware, flags.http.Admin.Metrics.Client("server"))
	}
	h, err := openHost(cmd.Context(), d, target)
	if needed := new(credstore.LoginError); flags.login && errors.As(err, &needed) {
		if err := login(cmd, needed.Server); err != nil {
			return err
		}
		h, err = openHost(cmd.Context(), d, target)
	}
	if err != nil {
		return failure.Unreachable(err)
	}
	defer h.Close()
	return serveHost(cmd, h, flags)
}

// openHost returns a host of one server, which is ready.
func openHost(ctx context.Context, d *client.Dialer, target client.Target) (*host.Host, error) {
	// The name is for errors and the log. Without a prefix, tools keep the server's names.
	h := &host.Host{Dialer: *d, Logger: d.Logger,
		Servers: []host.ServerConfig{{Name: "server", Target: target, NoPrefix: true}}}
	// the gateway is made later
	h.Callers = true
	if err := h.Start(); err != nil {
		return nil, err
	}
	if err := h.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// serveHost serves what the server of a host has.
func serveHost(cmd *cobra.Command, h *host.Host, flags *bridgeFlags) error {
	s := &server.Server{Info: h.Status()[0].Server.Info}
	s.Logger = program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	g, err := gateway.New(h, s)
	if err != nil {
		return err
	}
	g.Logger, g.Timeout, g.LocalUser = s.Logger, flags.Timeout, endpoint.IsLocalUser
	ctx, cancel := context.WithCancel(cmd.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { g.Run(ctx) })
	if err := g.WaitReady(ctx); err != nil {
		return err
	}
	flags.http.Trace = flags.Trace
	return flags.http.ServeAlone(cmd, s, nil)
}
