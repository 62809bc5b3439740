// Package gatewaytest runs a gateway in a test, and lists the features that work through it between clients and servers
// of all revisions. Only tests import it.
package gatewaytest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// patience is how long all servers may take to become ready.
const patience = 20 * time.Second

// Audit is a handler of the records of an audit log. It receives the attributes of each record by name, and the
// message as "event".
type Audit func(ctx context.Context, record map[string]any) error

func (f Audit) Handle(ctx context.Context, r slog.Record) error {
	record := map[string]any{"event": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		record[a.Key] = a.Value.Any()
		return true
	})
	return f(ctx, record)
}

func (f Audit) Enabled(context.Context, slog.Level) bool { return false } // a host does not call it

func (f Audit) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f Audit) WithGroup(string) slog.Handler { return f }

// OfLocalUser makes all callers the user of this machine, as in a program at a terminal.
func OfLocalUser(g *gateway.Gateway) { g.LocalUser = func(context.Context) bool { return true } }

// Run presents the servers of h as s until the test ends. It starts h, discards the log output of both, and returns
// when all servers are ready and s offers what they list. The functions may set fields of the gateway.
func Run(t testing.TB, h *host.Host, s *server.Server, set ...func(*gateway.Gateway)) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h.Logger, s.Logger = quiet, quiet
	g, err := gateway.New(h, s)
	if err != nil {
		t.Fatal(err)
	}
	g.Logger = quiet
	for _, f := range set {
		f(g)
	}
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
	if err := g.WaitReady(waiting); err != nil {
		t.Fatal(err)
	}
}
