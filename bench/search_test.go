package bench

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// newCatalog returns a host with 2,000 tools from 40 servers, until the test ends.
func newCatalog(tb testing.TB) *host.Host { return newCatalogOf(tb, 40, nil) }

// newCatalogOf returns a host with 50 tools from each of several servers, until the test ends.
func newCatalogOf(tb testing.TB, servers int, policy host.Policy) *host.Host {
	verbs := []string{"read", "create", "update", "delete", "list", "search", "export", "import", "approve", "archive"}
	nouns := []string{"invoice", "customer", "order", "ticket", "document"}
	h := &host.Host{Logger: slog.New(slog.DiscardHandler), Policy: policy}
	for i := range servers {
		s := &server.Server{Name: fmt.Sprint("server", i)}
		for _, verb := range verbs {
			for _, noun := range nouns {
				server.AddTool(s, mcp.Tool{
					Name: fmt.Sprintf("%s_%s_%d", verb, noun, i),
					Description: fmt.Sprintf("Use this tool to %s a %s in the records of department %d. It returns "+
						"the %s with all its fields.", verb, noun, i, noun),
				}, func(context.Context, struct {
					ID     string `json:"id"`
					Fields string `json:"fields"`
				}) (string, error) {
					return "", nil
				})
			}
		}
		near, far := transport.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = s.ServeConn(context.Background(), far)
		}()
		tb.Cleanup(func() {
			far.Close()
			<-served
		})
		h.Servers = append(h.Servers, host.ServerConfig{Name: fmt.Sprint("s", i), Target: client.Conn(near)})
	}
	if _, err := gateway.New(h, new(server.Server)); err != nil { // register makes others after Start
		tb.Fatal(err)
	}
	must.Do(tb, h.Start())
	tb.Cleanup(func() { h.Close() })
	must.Do(tb, h.WaitReady(tb.Context()))
	return h
}

// queries match many tools and few.
var queries = map[string]string{"broad": "read a document of a department", "narrow": "department 17"}

// BenchmarkSearch measures a search in 2,000 tools, in the host and by a client of a gateway. The budget is 5 ms.
func BenchmarkSearch(b *testing.B) {
	h := newCatalog(b)
	for name, query := range queries {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.Equal(b, len(h.Search(b.Context(), query, 10)), 10)
			}
		})
	}
	s, _ := register(b, h, -1)
	c := mcptest.Dial(b, s)
	b.Run("gateway", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must.Do(b, must.Err(c.CallTool(b.Context(), "search_tools", map[string]string{"query": queries["broad"]})))
		}
	})
}

// register runs a gateway to h, whose servers are ready, until stop is called or the test ends. It returns the server
// of the gateway when all tools are registered.
func register(tb testing.TB, h *host.Host, budget int) (s *server.Server, stop func()) {
	s = &server.Server{Limits: server.Limits{CallsPerSecond: -1}, Logger: h.Logger}
	registered, tools := make(chan struct{}), len(h.Tools())
	g := must.Get(gateway.New(h, s))(tb)
	g.Logger, g.ListBudget, g.OnSize = h.Logger, budget, func(c gateway.Size) {
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
	for name, c := range catalogLists {
		b.Run(name, func(b *testing.B) {
			s, _ := register(b, newCatalogOf(b, 40, c.policy), c.budget)
			benchmarkList(b, s)
		})
	}
}

// catalogLists are ways in which a gateway decides what its lists have.
var catalogLists = map[string]struct {
	policy host.Policy
	budget int
	allocs float64 // see TestAllocationsOfACatalogList
}{
	"all": {nil, 0, 20}, "within a budget": {nil, 1 << 30, 20},
	"a policy that denies nothing": {host.Rules{Default: host.Allow}, 0, 20},
	"a policy that denies some":    {denySome, 0, 2070}, // two for each tool
}

var denySome = host.Rules{Rules: []host.Rule{{Server: "s1", Tool: "delete_*", Action: host.Deny}}, Default: host.Allow}

// BenchmarkCatalogRegistration measures the registration of 50 tools from each of several servers. The time for a tool
// is the same for any number of servers.
func BenchmarkCatalogRegistration(b *testing.B) {
	for _, servers := range []int{10, 20, 40, 80} {
		b.Run(fmt.Sprintf("%d servers", servers), func(b *testing.B) {
			h := newCatalogOf(b, servers, nil)
			for b.Loop() {
				_, stop := register(b, h, 0)
				stop()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*servers*50), "µs/tool")
		})
	}
}
