package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/server"
)

const (
	defaultAddr = "127.0.0.1:7777"
	endpoint    = "/mcp"

	defaultLimitCalls = 10_000 // per second, more than one busy agent makes
	defaultLimitLists = 1_000

	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second // of the headers and body of one request
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 5 * time.Second
	responseTimeout   = 3 * time.Second // of the responses to requests that the shutdown has cancelled
)

// httpFlags are the flags of commands that serve HTTP.
type httpFlags struct {
	stdio       bool   // the command serves standard input and output without addr
	addr        string // empty only if stdio is set
	limitCalls  int
	limitLists  int
	trace       bool
	record      recordFlags
	endpoint    endpointFlags
	auth        authFlag
	store       storeFlags
	admin       adminFlags
	log         logFlag
	certificate *certificate                    // nil without --tls-cert
	login       http.Handler                    // serves the pages below loginPath; may be nil
	wrap        func(http.Handler) http.Handler // of the endpoint; may be nil
}

func (f *httpFlags) add(cmd *cobra.Command) {
	if f.stdio {
		cmd.Flags().StringVar(&f.addr, "addr", "", "serve HTTP on this `address`, as HOST:PORT")
	} else {
		cmd.Flags().StringVar(&f.addr, "addr", defaultAddr, "listen on this `address`")
	}
	cmd.Flags().IntVar(&f.limitCalls, "limit-calls", defaultLimitCalls, "maximum `number` of tool calls, completions and reads of resources per second of each caller; 0 means no limit")
	if cmd.Flags().Lookup("trace") == nil { // a command that also dials has these flags
		cmd.Flags().BoolVar(&f.trace, "trace", false, "print every message to stderr")
		f.record.add(cmd)
	}
	cmd.Flags().IntVar(&f.limitLists, "limit-lists", defaultLimitLists, "maximum `number` of requests for lists and server/discover per second of each caller; 0 means no limit")
	f.endpoint.add(cmd)
	f.auth.add(cmd)
	f.store.add(cmd)
	f.admin.add(cmd)
	f.log.add(cmd)
}

// apply applies the flags of a command that serves standard input and output unless there is an address.
func (f *httpFlags) apply(cmd *cobra.Command) error {
	if err := f.log.apply(cmd); err != nil {
		return err
	}
	if f.addr == "" {
		return f.checkStdio(cmd, "add --addr")
	}
	return nil
}

// checkStdio returns an error if a flag is set that has an effect over HTTP only. Advice says how to correct the
// command line.
func (f *httpFlags) checkStdio(cmd *cobra.Command, advice string) error {
	for _, name := range []string{"addr", "allow-host", "allow-origin", "public-url", "tls-cert", "tls-key", "auth", "store", "key-file", "admin", "drain-delay", "drain-timeout", "require-ready", "limit-calls", "limit-lists"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s has an effect over HTTP only; %s", name, advice)
		}
	}
	return nil
}

// listen starts to listen. The address must name the interface, so that the user does not
// expose the endpoint by accident. listen prints a warning if other machines can connect
// and no authorization is required.
func (f *httpFlags) listen(cmd *cobra.Command) (net.Listener, error) {
	if err := errors.Join(f.auth.check(), f.endpoint.check(&f.auth)); err != nil {
		return nil, err
	}
	if f.endpoint.cert != "" {
		f.certificate = &certificate{cert: f.endpoint.cert, key: f.endpoint.key, printf: cmd.PrintErrf}
		if err := f.certificate.load(); err != nil {
			return nil, err
		}
	}
	if f.limitCalls < 0 {
		return nil, errors.New("--limit-calls must not be negative; 0 means no limit")
	}
	if f.limitLists < 0 {
		return nil, errors.New("--limit-lists must not be negative; 0 means no limit")
	}
	if err := f.admin.check(); err != nil {
		return nil, err
	}
	listener, err := listenTCP(cmd, "--addr", f.addr)
	if err != nil {
		return nil, err
	}
	if !f.auth.required() && (!isLoopback(listener) || f.endpoint.exposed()) {
		at := listener.Addr().String()
		if f.endpoint.exposed() {
			at = cmp.Or(f.endpoint.publicURL, f.endpoint.named()[0])
		}
		cmd.PrintErrf("parley: warning: other machines can connect to %s without authorization; require it with --auth\n", at)
	}
	return listener, nil
}

// listenTCP listens on the address that a flag has. The address must name the interface.
func listenTCP(cmd *cobra.Command, flag, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s %q must be HOST:PORT, such as %s", flag, addr, defaultAddr)
	}
	if host == "" {
		return nil, fmt.Errorf("%s %q must name an interface; write 127.0.0.1:%s, or 0.0.0.0:%[3]s to accept connections from other machines", flag, addr, port)
	}
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot serve: %w; stop the other program or choose another port with %s", err, flag)
	case err != nil:
		return nil, fmt.Errorf("cannot serve: %w", err)
	}
	return listener, nil
}

// urlOf returns the URL of the endpoint for clients on this machine.
func urlOf(listener net.Listener) string {
	addr := listener.Addr().String()
	if a, err := netip.ParseAddrPort(addr); err == nil && a.Addr().IsUnspecified() {
		addr = fmt.Sprintf("127.0.0.1:%d", a.Port())
	}
	return "http://" + addr + endpoint
}

// serveAlone serves s, which is the only server of the command, until ctx is done. Show prints what it serves; nil
// means nothing.
func (f *httpFlags) serveAlone(cmd *cobra.Command, s *server.Server, show func(status *statusPrinter, url string, dev bool)) error {
	closeStore, err := f.store.apply(cmd, s)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := f.admin.observe(cmd, s); err != nil {
		return err
	}
	defer f.admin.end()
	listener, err := f.listen(cmd)
	if err != nil {
		return err
	}
	defer listener.Close()
	authorized, err := f.auth.apply(s, listener, s.Logger)
	if err != nil {
		return err
	}
	defer authorized.Close()
	f.endpoint.apply(s, listener)
	status := newStatusPrinter(cmd.ErrOrStderr())
	status.title(f.endpoint.url(listener), f.endpoint.localURL(listener))
	status.authorization(s.Auth, authorized.dev != nil)
	if show != nil {
		show(status, f.endpoint.url(listener), authorized.dev != nil)
	}
	return f.serve(cmd.Context(), cmd, listener, s, &toolsets{})
}

// ofLocalUser returns a handler for an endpoint without authorization that only programs of this machine can connect
// to. Their user can be asked for any of them. Requests that a proxy has forwarded may have another user.
func ofLocalUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
			if r.Header[name] != nil {
				next.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(rpc.WithLocalUser(r.Context())))
	})
}

// limit sets the maximum rates of calls and lists.
func (f *httpFlags) limit(s *server.Server) {
	s.Limits.CallsPerSecond, s.Limits.CallBurst = float64(f.limitCalls), 2*f.limitCalls
	s.Limits.ListsPerSecond = float64(f.limitLists)
	if f.limitCalls == 0 {
		s.Limits.CallsPerSecond = -1
	}
}

// serve serves s and toolsets until ctx is done, and then shuts them down gracefully, as docs/program/operations.md says. It
// closes the listener.
func (f *httpFlags) serve(ctx context.Context, cmd *cobra.Command, listener net.Listener, s *server.Server, below *toolsets) error {
	f.limit(s)
	o, err := f.observer(cmd, f.endpoint.localURL(listener))
	if err != nil {
		return err
	}
	var handler http.Handler = s
	if f.wrap != nil {
		handler = f.wrap(s)
	}
	var toolsets http.Handler = below
	if isLoopback(listener) && s.Auth == nil && !f.endpoint.exposed() {
		handler, toolsets = ofLocalUser(handler), ofLocalUser(toolsets)
	}
	if f.admin.metrics != nil {
		handler, toolsets = f.admin.metrics.handlerOf(handler), f.admin.metrics.handlerOf(toolsets)
	}
	observed := o.handlers(f.endpoint.localURL(listener))
	mux := http.NewServeMux()
	mux.Handle(endpoint, observed(handler))
	mux.Handle(endpoint+"/{toolset}", observed(toolsets))
	if f.login != nil {
		mux.Handle(loginPath+"/", f.login)
	}
	if s.Auth != nil {
		mux.Handle(auth.MetadataPath, s.Auth.MetadataHandler())
		mux.Handle(auth.MetadataPath+"/", below.metadata(s.Auth))
	}
	h := &http.Server{
		Handler:           f.endpoint.handler(mux),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are not logged
	}
	stopAdmin, err := f.admin.start(cmd)
	if err != nil {
		return err
	}
	defer stopAdmin()
	served := make(chan error, 1)
	go func() {
		if f.certificate == nil {
			served <- h.Serve(listener)
			return
		}
		h.TLSConfig = f.certificate.config()
		served <- h.ServeTLS(listener, "", "")
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	f.admin.drain(cmd)
	shutdown, cancel := context.WithTimeout(context.Background(), f.admin.drainTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- below.Shutdown(shutdown) }()
	if err := errors.Join(s.Shutdown(shutdown), <-ended); err != nil {
		cmd.PrintErrln("parley: warning: requests in flight were cancelled")
	}
	responses, cancel := context.WithTimeout(context.Background(), responseTimeout)
	defer cancel()
	if err := h.Shutdown(responses); err != nil {
		_ = h.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
