// Package endpoint serves a server over HTTP or over standard input and output, for every command that serves. It
// defines the flags for the address, authorization, the store, health checks and the log.
package endpoint

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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

const (
	defaultAddr = "127.0.0.1:7777"
	Path        = "/mcp"

	defaultLimitCalls = 10_000 // per second, more than one busy agent makes
	defaultLimitLists = 1_000

	ReadHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second // of the headers and body of one request
	IdleTimeout       = 2 * time.Minute
	ShutdownTimeout   = 5 * time.Second
	responseTimeout   = 3 * time.Second // of the responses to requests that the shutdown has cancelled
)

// Flags are the flags of commands that serve HTTP.
type Flags struct {
	Stdio       bool   // the command serves standard input and output without addr
	stream      bool   // it serves standard input and output
	Addr        string // empty only if stdio is set
	limitCalls  int
	limitLists  int
	Trace       bool
	record      recording.Flags
	Public      publicFlags
	Auth        AuthFlag
	Store       storeFlags
	Admin       adminFlags
	Log         program.LogFlag
	certificate *certificate // nil without --tls-cert
	Login       http.Handler // serves the pages below LoginPath; may be nil
}

func (f *Flags) Add(cmd *cobra.Command) {
	if f.Stdio {
		cmd.Flags().StringVar(&f.Addr, "addr", "", "serve HTTP on this `address`, as HOST:PORT")
	} else {
		cmd.Flags().StringVar(&f.Addr, "addr", defaultAddr, "listen on this `address`")
	}
	cmd.Flags().IntVar(&f.limitCalls, "limit-calls", defaultLimitCalls,
		"maximum `number` of calls, completions and reads of each caller per second; 0 means no limit")
	if cmd.Flags().Lookup("trace") == nil { // a command that also dials has these flags
		cmd.Flags().BoolVar(&f.Trace, "trace", false, "print every message to stderr")
		f.record.Add(cmd)
	}
	cmd.Flags().IntVar(&f.limitLists, "limit-lists", defaultLimitLists,
		"maximum `number` of requests for lists of each caller per second; 0 means no limit")
	f.Public.add(cmd)
	f.Auth.add(cmd)
	f.Store.add(cmd)
	f.Admin.add(cmd)
	f.Log.Add(cmd)
}

// Apply applies the flags of a command, and returns an error if a flag is set that only works over HTTP although the
// command serves standard input and output. Advice says how to correct the command line.
func (f *Flags) Apply(cmd *cobra.Command, stdio bool, advice string) error {
	f.stream = stdio
	if err := f.Log.Apply(cmd); err != nil || !stdio {
		return err
	}
	for _, name := range []string{"addr", "allow-host", "allow-origin", "public-url", "tls-cert", "tls-key", "auth",
		"store", "key-file", "admin", "drain-delay", "drain-timeout", "require-ready", "limit-calls", "limit-lists"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s only works over HTTP; %s", name, advice)
		}
	}
	return nil
}

// Listen starts to listen. The address must name the interface, so that the user does not expose the endpoint by
// accident. listen prints a warning if other machines can connect and no authorization is required.
func (f *Flags) Listen(cmd *cobra.Command) (net.Listener, error) {
	if err := errors.Join(f.Auth.check(), f.Public.check(&f.Auth)); err != nil {
		return nil, err
	}
	if f.Public.cert != "" {
		f.certificate = &certificate{cert: f.Public.cert, key: f.Public.key, printf: cmd.PrintErrf}
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
	if err := f.Admin.check(); err != nil {
		return nil, err
	}
	listener, err := ListenTCP(cmd, "--addr", f.Addr)
	if err != nil {
		return nil, err
	}
	if !f.Auth.required() && (!IsLoopback(listener) || f.Public.exposed()) {
		at := listener.Addr().String()
		if f.Public.exposed() {
			at = cmp.Or(f.Public.publicURL, f.Public.named()[0])
		}
		cmd.PrintErrf("parley: warning: other machines can connect to %s without authorization; require it with "+
			"--auth\n", at)
	}
	return listener, nil
}

// ListenTCP listens on the address that a flag has. The address must name the interface.
func ListenTCP(cmd *cobra.Command, flag, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s %q must be HOST:PORT, such as %s", flag, addr, defaultAddr)
	}
	if host == "" {
		return nil,
			fmt.Errorf("%s %q must name an interface; write 127.0.0.1:%s, or 0.0.0.0:%[3]s to accept connections "+
				"from other machines", flag, addr, port)
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

// URLOf returns the URL of the endpoint for clients on this machine.
func URLOf(listener net.Listener) string {
	addr := listener.Addr().String()
	if a, err := netip.ParseAddrPort(addr); err == nil && a.Addr().IsUnspecified() {
		addr = fmt.Sprintf("127.0.0.1:%d", a.Port())
	}
	return "http://" + addr + Path
}

// ServeAlone serves s, which is the only server of the command, until the command ends. Show prints what it serves over
// HTTP; nil means nothing.
func (f *Flags) ServeAlone(cmd *cobra.Command, s *server.Server,
	show func(status *Status, url string, dev bool)) error {
	if f.stream {
		if err := f.Admin.Observe(cmd, s); err != nil {
			return err
		}
		defer f.Admin.End()
		return f.ServeConn(cmd.Context(), cmd, s)
	}
	closeStore, err := f.Store.Apply(cmd, s)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := f.Admin.Observe(cmd, s); err != nil {
		return err
	}
	defer f.Admin.End()
	listener, err := f.Listen(cmd)
	if err != nil {
		return err
	}
	defer listener.Close()
	authorized, err := f.Auth.Apply(s, listener, s.Logger)
	if err != nil {
		return err
	}
	defer authorized.Close()
	f.Public.Apply(s, listener)
	status := NewStatus(cmd.ErrOrStderr())
	status.Title(f.Public.URL(listener), f.Public.LocalURL(listener))
	status.Authorization(authorized)
	if show != nil {
		show(status, f.Public.URL(listener), authorized.Dev != nil)
	}
	return f.Serve(cmd.Context(), cmd, listener, s, new(Below))
}

type localUser struct{}

// IsLocalUser reports whether a request comes from the user of this machine; see gateway.Gateway.LocalUser.
func IsLocalUser(ctx context.Context) bool { return ctx.Value(localUser{}) != nil }

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
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), localUser{}, true)))
	})
}

// Limit sets the maximum rates of calls and lists.
func (f *Flags) Limit(s *server.Server) {
	s.Limits.CallsPerSecond = float64(f.limitCalls)
	s.Limits.ListsPerSecond = float64(f.limitLists)
	if f.limitCalls == 0 {
		s.Limits.CallsPerSecond = -1
	}
}

// Serve serves s and the servers below it until ctx is done, and then shuts them down gracefully, as
// docs/program/operations.md says. It closes the listener.
func (f *Flags) Serve(ctx context.Context, cmd *cobra.Command, listener net.Listener, s *server.Server,
	below *Below) error {
	f.Limit(s)
	o, err := f.observer(cmd, s, f.Public.LocalURL(listener))
	if err != nil {
		return err
	}
	var handler http.Handler = s
	var toolsets http.Handler = below
	if IsLoopback(listener) && s.Auth == nil && !f.Public.exposed() {
		handler, toolsets = ofLocalUser(handler), ofLocalUser(toolsets)
	}
	if f.Admin.Metrics != nil {
		handler, toolsets = f.Admin.Metrics.handlerOf(handler), f.Admin.Metrics.handlerOf(toolsets)
	}
	observed := o.handlers(f.Public.LocalURL(listener))
	mux := http.NewServeMux()
	mux.Handle(Path, observed(handler))
	mux.Handle(Path+"/{toolset}", observed(toolsets))
	if f.Login != nil {
		mux.Handle(LoginPath+"/", f.Login)
	}
	if s.Auth != nil {
		mux.Handle(auth.MetadataPath, s.Auth.MetadataHandler())
		mux.Handle(auth.MetadataPath+"/", below.metadata(s.Auth))
	}
	h := &http.Server{
		Handler:           f.Public.handler(f.Auth.callers.handler(mux, s.Auth, f.Auth.issued() || f.Auth.keys != "")),
		ReadHeaderTimeout: ReadHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are not logged
	}
	stopAdmin, err := f.Admin.start(cmd)
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
	f.Admin.drain(cmd)
	shutdown, cancel := context.WithTimeout(context.Background(), f.Admin.drainTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- below.shutdown(shutdown) }()
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

// observer prints and records what clients send to a server of this program, and what it sends to them.
type observer struct {
	tracer   *recording.Tracer // nil without --trace
	recorder *recording.Writer // nil without --record
}

// observer returns the observer of s for the flags --trace and --record. Target names s in a recording.
func (f *Flags) observer(cmd *cobra.Command, s *server.Server, target string) (*observer, error) {
	o := new(observer)
	if f.Trace {
		o.tracer = recording.NewTracer(cmd.ErrOrStderr())
	}
	var err error
	o.recorder, err = f.record.Start(target, s.Headers)
	return o, err
}

// report prints and records an event of a client.
func (o *observer) report(client string, e recording.Event) {
	o.recorder.Report(e)
	if o.tracer != nil {
		o.tracer.Event(recording.Server, client, e)
	}
}

// handlers returns a function that observes the handlers of the server at a URL.
func (o *observer) handlers(url string) func(http.Handler) http.Handler {
	if o.tracer == nil && o.recorder == nil {
		return func(h http.Handler) http.Handler { return h }
	}
	observed := &recording.Observer{
		Origin: strings.TrimSuffix(url, Path),
		Report: func(r *http.Request, e recording.Event) { o.report(r.RemoteAddr, e) },
	}
	return observed.Handler
}

// conn observes the connection of a server on standard input and output.
func (o *observer) conn(conn transport.Conn) transport.Conn {
	if o.tracer == nil && o.recorder == nil {
		return conn
	}
	return recording.ServerConn(conn, func(e recording.Event) { o.report("client", e) })
}

// ServeConn serves standard input and output until the client closes them or ctx ends. Neither is an error.
func (f *Flags) ServeConn(ctx context.Context, cmd *cobra.Command, s *server.Server) error {
	o, err := f.observer(cmd, s, "parley "+cmd.Name()+" --stdio")
	if err != nil {
		return err
	}
	conn, err := transport.Stdio(transport.StdioOptions{})
	if err != nil {
		return err
	}
	err = s.ServeConn(ctx, o.conn(conn))
	if ctx.Err() != nil {
		return nil
	}
	return err
}
