package endpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/httpguard"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// storeCheckTimeout limits the time in which the store must respond for /readyz.
const storeCheckTimeout = 2 * time.Second

// serverStates are the states of a server for the operator.
var serverStates = []string{host.Starting.String(), host.Ready.String(), degraded, host.Down.String(),
	host.NeedsLogin.String(), host.NotStarted.String(), host.CallersOnly.String()}

// degraded is the state of a server that can be used, but whose lists are not complete or could not be updated.
const degraded = "degraded"

// StateOf returns the state of a server for the operator. A server that is started again after a failure is down.
func StateOf(s *host.ServerStatus) string {
	switch {
	case s.State == host.Starting && s.Err != nil:
		return host.Down.String()
	case s.State == host.Ready && s.Incomplete != nil:
		return degraded
	}
	return s.State.String()
}

// adminFlags are the flags for the operation of commands that serve HTTP.
type adminFlags struct {
	addr         string
	drainDelay   time.Duration
	drainTimeout time.Duration
	Require      []string
	otlp         string
	Metrics      *metrics // nil if there is neither an address nor a collector
	state        readiness
}

func (f *adminFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "admin", "", "serve /healthz, /readyz and /metrics on this `address`, as HOST:PORT")
	cmd.Flags().StringVar(&f.otlp, "otlp", "",
		"export traces and metrics to the collector at this `URL` with OTLP over HTTP, such as http://localhost:4318 "+
			"(default: the OTEL_* variables)")
	cmd.Flags().DurationVar(&f.drainDelay, "drain-delay", 0,
		"after a signal, serve for this `time` with /readyz at 503, so that load balancers stop sending requests")
	cmd.Flags().DurationVar(&f.drainTimeout, "drain-timeout", ShutdownTimeout,
		"then wait for the requests in flight, for at most this `time`")
}

// AddRequire adds the flag for commands that have servers.
func (f *adminFlags) AddRequire(cmd *cobra.Command) {
	cmd.Flags().Var((*program.Repeated)(&f.Require), "require-ready",
		"/readyz is 503 while the server with this `name` is down, or any with all (repeatable; default none)")
}

func (f *adminFlags) check() error {
	if f.drainDelay < 0 || f.drainTimeout < 0 {
		return errors.New("--drain-delay and --drain-timeout must not be negative")
	}
	if len(f.Require) > 0 && f.addr == "" {
		return errors.New("--require-ready requires --admin, because /readyz is served there")
	}
	return nil
}

// Begin starts the metrics and the exporter that the flags and the environment want, unless it has done so.
func (f *adminFlags) Begin(cmd *cobra.Command) error {
	if f.Metrics != nil {
		return nil
	}
	warn := func(text string) { cmd.PrintErrf("parley: warning: %s\n", terminal.Line(text)) }
	to, err := newExporter(cmd.Context(), f.otlp, warn)
	if err != nil || to == nil && f.addr == "" {
		return err
	}
	f.Metrics, err = newMetrics(to, f.addr != "")
	return err
}

// flushTimeout limits the time to export what remains at the end of the program.
const flushTimeout = 3 * time.Second

// End exports what remains. It is called when no request is in flight.
func (f *adminFlags) End() {
	if f.Metrics != nil {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		f.Metrics.close(ctx)
	}
}

// Observe makes the metrics record the requests of s, and /readyz check its store. It is called before s is used, and
// end after that.
func (f *adminFlags) Observe(cmd *cobra.Command, s *server.Server) error {
	if err := f.Begin(cmd); err != nil || f.Metrics == nil {
		return err
	}
	f.state.store, f.state.require = s.Store, f.Require
	f.Metrics.observe(s)
	return nil
}

// ObserveToolset makes the metrics record the requests of the server of a toolset. It is called before s is used.
func (f *adminFlags) ObserveToolset(s *server.Server) {
	if f.Metrics != nil {
		f.Metrics.observe(s)
	}
}

// ObserveHost is observe for the servers of a host and their tools. It is called before the host is started.
func (f *adminFlags) ObserveHost(h *host.Host, g *gateway.Gateway) error {
	if f.Metrics == nil {
		return nil
	}
	f.state.host = h
	return errors.Join(f.Metrics.observeHost(h), f.Metrics.observeSize(g))
}

// start serves the pages until stop is called. The address must name the interface.
func (f *adminFlags) start(cmd *cobra.Command) (stop func(), err error) {
	if f.addr == "" {
		return func() {}, nil
	}
	listener, err := ListenTCP(cmd, "--admin", f.addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.Handle("GET /readyz", &f.state)
	mux.Handle("GET /metrics", f.Metrics.handler())
	h := &http.Server{
		Handler: guarded(mux), ReadHeaderTimeout: ReadHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: readTimeout,
		IdleTimeout:  IdleTimeout, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(listener) })
	cmd.PrintErrf("parley: health and metrics at http://%s\n", listener.Addr())
	return func() {
		_ = h.Close()
		serving.Wait()
	}, nil
}

// guarded rejects requests to the loopback interface that name another host: they come from a web page whose domain was
// made to resolve to it (2026-07-28, basic/transports/streamable-http, Security Warning).
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, err := new(httpguard.Guard).Check(r); err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readiness serves /readyz. Its fields are set before it is used.
type readiness struct {
	host     *host.Host  // may be nil
	store    store.Store // may be nil
	require  []string
	draining atomic.Bool

	mu      sync.Mutex
	checked time.Time // when the store was asked
	missing []string  // what the store did not do; nil while the first check runs
}

// ReadinessReport is the body of /readyz. It contains no reasons for failures, which can have secrets.
type ReadinessReport struct {
	Ready    bool          `json:"ready"`
	Draining bool          `json:"draining,omitempty"`
	Store    string        `json:"store,omitempty"`
	Missing  []string      `json:"missing,omitempty"` // what the store does not do
	Servers  []serverReady `json:"servers,omitempty"`
}

type serverReady struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Required bool   `json:"required,omitempty"`
}

// ServeHTTP implements http.Handler.
func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	report := r.report(req.Context())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !report.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(report)
}

// report returns the readiness now. The program is not ready while a server starts for the first time, because its
// tools are not known, and while a required server is down.
func (r *readiness) report(ctx context.Context) ReadinessReport {
	report := ReadinessReport{Draining: r.draining.Load()}
	report.Ready = !report.Draining
	if r.store != nil {
		report.Store, report.Missing = "reachable", r.missingOfStore(ctx)
		switch {
		case slices.Contains(report.Missing, canRead):
			report.Store, report.Missing, report.Ready = "unreachable", nil, false
		case report.Missing != nil:
			report.Store, report.Ready = "incomplete", false
		}
	}
	missing := slices.DeleteFunc(slices.Clone(r.require), func(name string) bool { return name == "all" })
	if r.host != nil {
		for _, status := range r.host.Status() {
			s := serverReady{Name: status.Name, State: StateOf(&status)}
			s.Required = slices.Contains(r.require, s.Name) || slices.Contains(r.require, "all")
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == s.Name })
			if s.State == host.Starting.String() || s.Required &&
				status.State != host.Ready && status.State != host.CallersOnly && status.State != host.NotStarted {
				report.Ready = false
			}
			report.Servers = append(report.Servers, s)
		}
	}
	for _, name := range missing { // it is not configured, or was skipped
		report.Servers = append(report.Servers, serverReady{Name: name, State: host.Down.String(), Required: true})
		report.Ready = false
	}
	return report
}

// What a replica needs of its store. A Redis server that is a replica of another one, or the limited rights of a user,
// leave out parts.
const (
	canRead      = "read (GET)"
	canWrite     = "write (SET)"
	canScript    = "run scripts (EVALSHA, EVAL)"
	canPublish   = "publish (PUBLISH)"
	canSubscribe = "subscribe (SUBSCRIBE)"
)

// missingOfStore returns what the store does not do. It asks at most once a second, however many requests there are.
func (r *readiness) missingOfStore(ctx context.Context) []string {
	r.mu.Lock()
	recent, missing := time.Since(r.checked) < time.Second, r.missing
	if !recent {
		r.checked = time.Now()
	}
	r.mu.Unlock()
	if recent {
		return missing
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeCheckTimeout)
	defer cancel()
	missing = nil
	check := func(name string, err error) {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			missing = append(missing, name)
		}
	}
	const key = "parley/readyz"
	_, err := r.store.Get(ctx, key)
	check(canRead, err)
	if missing == nil {
		_, err = r.store.Put(ctx, key, nil, store.PutOptions{TTL: time.Minute})
		check(canWrite, err)
		_, err = r.store.Touch(ctx, key, time.Minute)
		check(canScript, err)
	}
	if missing == nil {
		check(canPublish, r.store.Publish(ctx, key, nil))
		subscription, err := r.store.Subscribe(ctx, key, 1)
		check(canSubscribe, err)
		if err == nil {
			subscription.Close()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing = missing
	return missing
}

// drain makes /readyz report that the program ends, and waits until load balancers have noticed.
func (f *adminFlags) drain(cmd *cobra.Command) {
	f.state.draining.Store(true)
	if f.drainDelay == 0 {
		return
	}
	cmd.PrintErrf("parley: draining: requests are served for another %v\n", f.drainDelay)
	time.Sleep(f.drainDelay) // a second signal ends the program
}

// Text returns the report for the user.
func (r *ReadinessReport) Text() string {
	var b strings.Builder
	state := "ready"
	switch {
	case r.Draining:
		state = "draining"
	case !r.Ready:
		state = "not ready"
	}
	fmt.Fprintln(&b, state)
	if r.Store != "" {
		fmt.Fprintln(&b, "store: "+terminal.Line(r.Store))
		for _, missing := range r.Missing {
			fmt.Fprintln(&b, terminal.Line("store: cannot "+missing))
		}
	}
	for _, s := range r.Servers {
		required := ""
		if s.Required {
			required = " (required)"
		}
		fmt.Fprintln(&b, terminal.Line(s.Name+": "+s.State+required))
	}
	return b.String()
}

// Below serves other servers below the endpoint, each at the path that is its name. It is safe for concurrent use.
type Below struct {
	byName atomic.Pointer[map[string]*server.Server]
}

// Set replaces the servers.
func (b *Below) Set(byName map[string]*server.Server) { b.byName.Store(&byName) }

// servers returns the servers by their names.
func (b *Below) servers() map[string]*server.Server {
	if all := b.byName.Load(); all != nil {
		return *all
	}
	return nil
}

// ServeHTTP serves the server that the path names.
func (b *Below) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := b.servers()[r.PathValue("toolset")]
	if s == nil {
		http.Error(w, "unknown toolset", http.StatusNotFound)
		return
	}
	s.ServeHTTP(w, r)
}

// metadata returns a handler that serves the metadata of the endpoint, which is protected by own, and of the servers
// below it (RFC 9728, section 3.1).
func (b *Below) metadata(own *auth.ProtectedResource) http.Handler {
	path := auth.MetadataPath + Path
	if u, err := url.Parse(own.URI); err == nil && own.URI != "" {
		path = auth.MetadataPath + strings.TrimSuffix(u.Path, "/")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := own
		if name, ok := strings.CutPrefix(r.URL.Path, path+"/"); ok {
			s := b.servers()[name]
			if s == nil {
				http.NotFound(w, r)
				return
			}
			resource = s.Auth
		}
		resource.MetadataHandler().ServeHTTP(w, r)
	})
}

// shutdown ends all servers; see server.Server.Shutdown.
func (b *Below) shutdown(ctx context.Context) error {
	all := b.servers()
	errs := make(chan error, len(all))
	for _, s := range all {
		go func() { errs <- s.Shutdown(ctx) }()
	}
	var first error
	for range all {
		first = cmp.Or(first, <-errs)
	}
	return first
}
