package connection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// Names returns the names that have a socket.
func Names() []string {
	dir, err := Default()
	if err != nil {
		return nil
	}
	return dir.Names()
}

// Target returns the connection with a name, or nil if there is none.
func Target(ctx context.Context, name string) (client.Target, error) {
	dir, err := Default()
	if err != nil || link.CheckServerName(name) != nil { // without a directory there are no connections
		return nil, nil
	}
	conn, err := dir.Dial(ctx, name)
	switch {
	case errors.Is(err, ErrNotConnected):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot use the connection %s: %w", name, err)
	}
	return client.Conn(transport.Stream(conn, transport.StreamOptions{MaxMessage: transport.DefaultClientMaxMessage})),
		nil
}

// OpenHost returns a host of one server, which is ready.
func OpenHost(ctx context.Context, d *client.Dialer, target client.Target, sharing host.Sharing) (*host.Host, error) {
	// The name is for errors and the log. Without a prefix, the names of tools are those of the server.
	h := &host.Host{Dialer: *d, Logger: d.Logger,
		Servers: []host.ServerConfig{{Name: "server", Target: target, Sharing: sharing, Prefix: new("")}}}
	// the gateway is made later
	if err := link.Get[link.Host[host.Host, host.ServerStatus, host.Request]]().Forward(h); err != nil {
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

// ServeHost calls serve with a server that has what the server of a host has. Timeout limits the time without a message
// during a call.
func ServeHost(cmd *cobra.Command, h *host.Host, timeout time.Duration,
	serve func(ctx context.Context, s *server.Server) error) error {
	s := bridgeServer(&h.Status()[0].Server)
	s.Logger = program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)
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

// bridgeServer returns a server without tools that has the name of another one.
func bridgeServer(of *client.ServerDetails) *server.Server {
	return &server.Server{
		Name: of.Info.Name, Title: of.Info.Title, Version: of.Info.Version, Description: of.Info.Description,
		WebsiteURL: of.Info.WebsiteURL, Icons: of.Info.Icons,
	}
}
