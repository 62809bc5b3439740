package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// register runs a gateway to h, whose servers are ready, until stop is called or the test ends. It returns the server
// of the gateway when all tools are registered.
func register(tb testing.TB, h *host.Host, budget int) (s *server.Server, stop func()) {
	s = &server.Server{Limits: server.Limits{CallsPerSecond: -1}, Logger: h.Logger}
	registered, tools := make(chan struct{}), len(h.Tools())
	g, err := gateway.New(h, s)
	if err != nil {
		tb.Fatal(err)
	}
	g.Logger, g.ListBudget, g.OnCatalog = h.Logger, budget, func(c gateway.Catalog) {
		if c.Tools == tools {
			close(registered)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		g.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ran
	}
	tb.Cleanup(stop)
	<-registered
	return s, stop
}

// BenchmarkCatalogList measures a page of 1,000 of 2,000 tools from 40 servers, which a gateway lists.
func BenchmarkCatalogList(b *testing.B) {
	s, _ := register(b, newCatalog(b), 0)
	benchmarkList(b, s)
}

// BenchmarkCatalogRegistration measures the registration of 50 tools from each of several servers. The time for a tool
// is the same for any number of servers.
func BenchmarkCatalogRegistration(b *testing.B) {
	for _, servers := range []int{10, 20, 40, 80} {
		b.Run(fmt.Sprintf("%d servers", servers), func(b *testing.B) {
			h := newCatalogOf(b, servers)
			for b.Loop() {
				_, stop := register(b, h, 0)
				stop()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*servers*50), "µs/tool")
		})
	}
}
