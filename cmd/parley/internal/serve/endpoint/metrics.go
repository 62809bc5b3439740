package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// metrics are the metrics of the program, for Prometheus and for a collector, and its traces for a collector. Clients
// and servers choose names of tools, so the SDK limits the time series of each metric to 2,000; the rest counts in one.
type metrics struct {
	registry *prometheus.Registry // nil without --admin
	exporter *exporter            // nil without a collector
	provider *sdkmetric.MeterProvider
	meter    metric.Meter
	inflight atomic.Int64
	catalog  atomic.Pointer[gateway.Size]

	server call.Middleware // of all servers, so that they share time series

	mu      sync.Mutex
	servers []weak.Pointer[server.Server] // those of toolsets end when the configuration changes
	clients map[string]call.Middleware    // by the name of the server
}

// newMetrics returns metrics for an exporter, which may be nil, and for Prometheus if pages is true.
func newMetrics(to *exporter, pages bool) (*metrics, error) {
	m := &metrics{exporter: to, clients: make(map[string]call.Middleware)}
	var options []sdkmetric.Option
	if pages {
		m.registry = prometheus.NewRegistry()
		reader, err := prometheusexporter.New(prometheusexporter.WithRegisterer(m.registry),
			prometheusexporter.WithoutScopeInfo(), prometheusexporter.WithoutTargetInfo())
		if err != nil {
			return nil, err
		}
		m.registry.MustRegister(collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		options = append(options, sdkmetric.WithReader(reader))
	}
	if to != nil {
		options = append(options, sdkmetric.WithResource(to.resource))
		if to.metrics != nil {
			options = append(options, sdkmetric.WithReader(to.metrics))
		}
	}
	m.provider = sdkmetric.NewMeterProvider(options...)
	m.meter = m.provider.Meter("github.com/parley-mcp/parley/cmd/parley")
	m.server = otel.Server(m.options())
	return m, errors.Join(m.gauge("mcp.server.requests.active", "Requests that are being served", m.inflight.Load),
		m.gauge("mcp.server.sessions.active", "Sessions with a request or an open stream", m.sessions))
}

// options returns what otel records: metrics, and traces if there is a collector for them.
func (m *metrics) options(attributes ...attribute.KeyValue) otel.Options {
	o := otel.Options{
		MeterProvider: m.provider, TracerProvider: noop.NewTracerProvider(),
		Propagator: propagation.NewCompositeTextMapPropagator(),
		Attributes: attributes,
	}
	if m.exporter != nil {
		// The keys of _meta that MCP defines for traces come from the W3C.
		o.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
		if m.exporter.traces != nil {
			o.TracerProvider = m.exporter.traces
		}
	}
	return o
}

// handlerOf returns a handler whose spans belong to the trace that the headers of a request name, unless its _meta
// names one. Baggage of headers is ignored: it is for the proxies before parley, and not for the servers behind it.
func (m *metrics) handlerOf(next http.Handler) http.Handler {
	if m.exporter == nil || m.exporter.traces == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(propagation.TraceContext{}.Extract(r.Context(),
			propagation.HeaderCarrier(r.Header))))
	})
}

// close exports what remains until ctx ends, and reports failures.
func (m *metrics) close(ctx context.Context) {
	var closing sync.WaitGroup
	closing.Go(func() { reportEnd(m.provider.Shutdown(ctx)) })
	if m.exporter != nil && m.exporter.traces != nil {
		closing.Go(func() { reportEnd(m.exporter.traces.Shutdown(ctx)) })
	}
	closing.Wait()
}

// observe records the requests and sessions of s, which has not been used yet.
func (m *metrics) observe(s *server.Server) {
	s.Middleware = append([]call.Middleware{m.server, m.countInflight}, s.Middleware...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = append(slices.DeleteFunc(m.servers,
		func(s weak.Pointer[server.Server]) bool { return s.Value() == nil }), weak.Make(s))
}

// sessions returns the number of active sessions of all servers.
func (m *metrics) sessions() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.servers {
		if s := s.Value(); s != nil {
			n += int64(s.ActiveSessions())
		}
	}
	return n
}

// observeHost records the requests to the servers of h, which has not been started, and their states.
func (m *metrics) observeHost(h *host.Host) error {
	adapt := h.AdaptDialer
	h.AdaptDialer = func(server string, d *client.Dialer) {
		if d.Middleware = append(d.Middleware, m.Client(server)); adapt != nil {
			adapt(server, d)
		}
	}
	states, err := m.meter.Int64ObservableGauge("parley.upstream.state",
		metric.WithDescription("1 for the current state of each server, 0 for the others"))
	if err != nil {
		return err
	}
	_, err = m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, status := range h.Status() {
			now := StateOf(&status)
			for _, state := range serverStates {
				value := int64(0)
				if state == now {
					value = 1
				}
				o.ObserveInt64(states, value, metric.WithAttributes(attribute.String("server", status.Name),
					attribute.String("state", state)))
			}
		}
		return nil
	}, states)
	return err
}

// observeSize records the size of the catalogue that g reports. It is called after OnSize is set.
func (m *metrics) observeSize(g *gateway.Gateway) error {
	next := g.OnSize
	g.OnSize = func(c gateway.Size) {
		m.catalog.Store(&c)
		next(c)
	}
	m.catalog.Store(&gateway.Size{Listed: true})
	return errors.Join(
		m.gauge("parley.catalog.tools", "Tools of all servers", func() int64 { return int64(m.catalog.Load().Tools) }),
		m.gauge("parley.catalog.size.bytes", "Size of the definitions of all tools",
			func() int64 { return int64(m.catalog.Load().Bytes) }),
		m.gauge("parley.catalog.listed", "1 if clients receive the definitions, 0 if they search for tools",
			func() int64 {
				if m.catalog.Load().Listed {
					return 1
				}
				return 0
			}))
}

// Client returns the middleware of a server's client. A server that is started again continues its time series.
func (m *metrics) Client(server string) call.Middleware {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clients[server] == nil {
		m.clients[server] = otel.Client(m.options(attribute.String("server", server)))
	}
	return m.clients[server]
}

func (m *metrics) countInflight(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		m.inflight.Add(1)
		defer m.inflight.Add(-1)
		return next(ctx, c)
	}
}

func (m *metrics) gauge(name, description string, value func() int64) error {
	_, err := m.meter.Int64ObservableGauge(name, metric.WithDescription(description),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(value())
			return nil
		}))
	return err
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Status prints the endpoint and the state of the servers for the user. Its methods are safe for concurrent use.
type Status struct {
	mu     sync.Mutex
	w      io.Writer
	width  int          // of the longest server name
	logger *slog.Logger // if w is for log records, and otherwise nil

	printed map[string]string // the state of each server that was printed last

	bold, dim, green, red lipgloss.Style
}

func NewStatus(w io.Writer) *Status {
	return &Status{
		// The writer removes colours unless w is a terminal, or if NO_COLOR is set.
		w: colorprofile.NewWriter(w, os.Environ()), logger: program.LoggerOf(w), bold: lipgloss.NewStyle().Bold(true),
		dim: lipgloss.NewStyle().Faint(true), green: lipgloss.NewStyle().Foreground(lipgloss.Green),
		red: lipgloss.NewStyle().Foreground(lipgloss.Red), printed: make(map[string]string),
	}
}

// Title prints the URL of the endpoint for clients, and the one on this machine if it is another one.
func (p *Status) Title(url, local string) {
	if p.logger != nil {
		p.logger.Info("serving MCP", "url", url, "version", program.Version(), "local", local)
		return
	}
	p.Print("\n  %s %s  %s\n\n", p.bold.Render("parley"), program.Version(), p.bold.Render(url))
	if local != url {
		p.Print("  Listening on %s.\n\n", local)
	}
}

// Authorization prints what requests require.
func (p *Status) Authorization(a *authorization) {
	if a.Resource == nil {
		return
	}
	var ways []string
	if a.flag.header != "" {
		ways = append(ways, "a user of the proxy in the header "+a.flag.header)
	}
	if a.flag.keys != "" {
		ways = append(ways, "an API key of "+terminal.Line(a.flag.keys))
	}
	for _, issuer := range a.Resource.Issuers {
		ways = append(ways, "a token of "+terminal.Line(issuer))
	}
	text := strings.Join(ways, " or ")
	if a.Dev != nil {
		text += ", a development issuer that logs in any user"
	}
	p.Print("  Requests require %s.\n\n", text)
}

// Examples prints what is served and commands of parley to try, unless the output is for log records. Last is the last
// line, which can be empty.
func (p *Status) Examples(what, last string, commands ...string) {
	if p.logger != nil {
		return
	}
	p.Print("  Serving %s. Try in another terminal:\n\n", what)
	for _, command := range commands {
		p.Print("    parley %s\n", command)
	}
	if last != "" {
		p.Print("\n  %s\n", p.dim.Render(last))
	}
	p.Print("\n")
}

// Reserve widens the column of server names for name.
func (p *Status) Reserve(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.width = max(p.width, len(name))
}

// Update prints the state of a server, unless the same was printed last: the status also changes with each list, and
// repeated attempts fail with the same error. It must not be called concurrently.
func (p *Status) Update(s host.ServerStatus) {
	text, show := "", p.Note
	switch {
	case s.State == host.Ready:
		text, show = p.summary(s), func(name, text string) { p.line(p.green.Render("✓"), name, text) }
	case s.State == host.Down, s.State == host.NeedsLogin:
		text, show = failureOf(s), p.Failed
	case s.State == host.CallersOnly:
		text = "lists nothing without a login, so each caller sees what its own login allows"
	case s.State == host.NotStarted && s.Revision == "":
		text = "not started: starts with the first request that needs it"
	case s.State == host.NotStarted:
		text = "ended because it was idle: starts with the next request that needs it"
	case s.State == host.Removed:
		text = "removed"
	}
	if text == "" || text == p.printed[s.Name] {
		return
	}
	if p.printed[s.Name] = text; s.State == host.Removed {
		delete(p.printed, s.Name)
	}
	show(s.Name, text)
}

// summary describes a server that is ready.
func (p *Status) summary(s host.ServerStatus) string {
	info := s.Server.Info
	text := fmt.Sprintf("%-9s %s", terminal.Count(len(s.Tools), "tool"),
		p.dim.Render(terminal.Line(fmt.Sprintf("MCP %s · %s %s", s.Revision, info.Name, info.Version))))
	if s.Sharing == host.SharingSession || s.Sharing == host.SharingUser {
		text += " " + p.dim.Render("· one client per caller")
	}
	if s.Incomplete != nil {
		text += " " + terminal.Bounded(fmt.Sprintf("(degraded: %s)", s.Incomplete))
	}
	return text
}

func (p *Status) Failed(name, text string) {
	if p.logger != nil {
		p.logger.Warn(terminal.Bounded(text), "server", name)
		return
	}
	p.line(p.red.Render("✗"), name, terminal.Bounded(text))
}

func (p *Status) Note(name, text string) {
	if p.logger != nil {
		p.logger.Info(text, "server", name)
		return
	}
	p.line(p.dim.Render("–"), name, p.dim.Render(text))
}

// failureOf describes why a server is down, and when parley connects to it again.
func failureOf(s host.ServerStatus) string {
	text := failure.Explain(s.Err)
	if s.State == host.NeedsLogin {
		return text + " (tried again after a login, a change of the file or a call)"
	}
	return text + " (retrying)" // whether the server was ready before or not
}

func (p *Status) line(mark, name, text string) {
	p.mu.Lock()
	width := p.width
	p.mu.Unlock()
	p.Print("  %s %-*s  %s\n", mark, width, name, text)
}

func (p *Status) Print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format, args...)
}
