// Package gatewaytest runs a gateway in a test. Only tests import it.
package gatewaytest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// patience is the time in which all tools must be listed.
const patience = 20 * time.Second

// Run presents the servers of h as s until the test ends. It returns when all servers are ready and
// s lists the tools of h. It starts h and discards the log output of both.
func Run(t testing.TB, h *host.Host, s *server.Server) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h.Logger, s.Logger = quiet, quiet
	g := gateway.New(h, s)
	g.Logger = quiet
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		h.Close()
	})
	waiting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := h.WaitReady(waiting); err != nil {
		t.Fatal(err)
	}
	listed, want := 0, len(h.Tools())
	c := mcptest.Dial(t, s)
	for _, err := range c.Watch(waiting, client.WatchFilter{Tools: true}) {
		if err != nil {
			t.Fatalf("%d tools are listed, want %d: %v", listed, want, err)
		}
		if listed = count(waiting, t, c); listed >= want {
			return
		}
	}
	t.Fatalf("%d tools are listed, want %d", listed, want)
}

// count returns the number of tools that c lists.
func count(ctx context.Context, t testing.TB, c *client.Client) int {
	t.Helper()
	n := 0
	for _, err := range c.Tools(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
