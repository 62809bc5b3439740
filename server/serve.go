package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/serve/httpserver"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/internal/tasks"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/transport"
)

// ErrShutdown is returned by [Server.Serve] and [Server.ListenAndServe] when [Server.Shutdown]
// ends them, and by every method that serves if it is called after Shutdown.
var ErrShutdown = errors.New("server: the server was shut down")

// Time-outs of the http.Server that Serve runs. Bodies and responses have none here: event
// streams may last for days, and the server's handler bounds the rest.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// shutdownTimeout is how long calls in flight may take once the context of Serve has ended.
	shutdownTimeout = 5 * time.Second
)

// defaultAddress is the address of Main, and of ListenAndServe without one.
const defaultAddress = "127.0.0.1:8080"

// ServeHTTP implements http.Handler. It is one MCP endpoint for the stateless requests of
// 2026-07-28, the sessions of 2025-03-26 to 2025-11-25, and the HTTP+SSE transport of 2024-11-05.
// HTTP+SSE is deprecated since 2025-03-26 (SEP-2596), and may be removed from the protocol three
// months after that SEP became final, which it did in June 2026.
//
// A request from a web page is rejected with status 403 unless its origin is the server's own or
// one of AllowedOrigins. On the loopback interface, the Host header must be a name of that
// interface or one of AllowedHosts.
//
// Reading a request and writing a response have time-outs, even if the http.Server sets none. Middleware that wraps the
// ResponseWriter must implement Unwrap for that; see [http.ResponseController]. If [Server.Check] returns an error,
// every request is answered with status 500, and the error is logged once.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := s.ready()
	if err != nil {
		if !s.rejected.Swap(true) {
			s.logger().ErrorContext(r.Context(), "requests are rejected: the server is not configured correctly",
				"error", err)
		}
		http.Error(w, errConfiguration.Error(), http.StatusInternalServerError)
		return
	}
	if s.Auth == nil && s.scoped() && auth.FromContext(r.Context()) == nil {
		s.warnOfScopes()
	}
	c.http.ServeHTTP(w, r)
}

// ListenAndServe listens on a TCP address, logs the URL, and serves HTTP until ctx ends; see [Server.Serve]. An empty
// address means 127.0.0.1:8080. An address without a host, such as ":8080", means the loopback interface. To accept
// connections from other machines, use the address of an interface or 0.0.0.0, and set Auth. The server answers at
// every path; the logged URL ends with /mcp.
func (s *Server) ListenAndServe(ctx context.Context, address string) error {
	if err := s.Check(); err != nil { // before the port is taken
		return err
	}
	listener, err := listen(address)
	if err != nil {
		return err
	}
	s.logger().InfoContext(ctx, "serving MCP", "url", "http://"+listener.Addr().String()+"/mcp")
	return s.Serve(ctx, listener)
}

func listen(address string) (net.Listener, error) {
	if address == "" {
		address = defaultAddress
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("server: the address must be host:port: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return listener, nil
}

// Serve serves HTTP on a listener, which it closes. Idle connections and the headers of requests
// have time-outs.
//
// When ctx ends, Serve stops accepting connections, waits at most five seconds for the calls in
// flight, closes all connections and returns nil, or an error if it had to cancel calls. It
// returns [ErrShutdown] when [Server.Shutdown] was called, the error of [Server.Check], or the
// error of the listener.
//
// To serve other handlers on the same port, or to use other settings, mount the Server on an
// http.Server instead. To stop, call Server.Shutdown first, because http.Server.Shutdown waits
// for open event streams.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	c, err := s.ready()
	if err != nil {
		listener.Close()
		return err
	}
	if c.draining.Err() != nil {
		listener.Close()
		return ErrShutdown
	}
	// Requests outlive ctx until they have finished. Their caller and headers are not those of ctx, which may be the
	// context of a call.
	values := httpserver.WithHeader(auth.NewContext(context.WithoutCancel(ctx), nil), nil)
	web := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return values },
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("server: %w", err)
	case <-c.draining.Done():
		err = ErrShutdown
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(values, shutdownTimeout)
	defer cancel()
	closed := make(chan error, 1)
	// At the same time, so that the listener is closed at once and a load balancer chooses another replica.
	go func() { closed <- web.Shutdown(grace) }()
	if ended := s.Shutdown(grace); ended != nil && err == nil { // ends the event streams that web.Shutdown waits for
		err = fmt.Errorf("server: calls in flight were cancelled at shutdown: %w", ended)
	}
	if <-closed != nil {
		web.Close()
	}
	<-served
	return err
}

// Run serves standard input and output. It returns nil when the client has closed standard
// input, after the calls in flight have finished or [Limits].Grace has passed. When ctx ends, it
// cancels the calls in flight and returns nil. When [Server.Shutdown] is called, it finishes
// them and returns nil.
//
// While Run serves, text that the program prints to standard output goes to standard error, on
// systems that allow it; see [transport.Stdio].
func (s *Server) Run(ctx context.Context) error {
	if err := s.runStdio(ctx); err != streamserver.ErrNoMessage {
		return err
	}
	return nil
}

// runStdio is Run, but returns streamserver.ErrNoMessage if standard input ends before the first message.
func (s *Server) runStdio(ctx context.Context) error {
	c, err := s.ready()
	if err != nil {
		return err
	}
	limit := transport.StreamOptions{MaxMessage: s.Limits.MaxMessage}
	conn, err := transport.Stdio(transport.StdioOptions{StreamOptions: limit})
	if err != nil {
		return err
	}
	wire := c.stream
	wire.KeepAlive = 0 // the client's process closes the stream when it ends
	wire.Piped = s.Limits.Grace == 0
	err = s.serveStream(ctx, c, conn, &wire)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ServeConn serves one connection and closes it. It returns nil when the client has closed the connection, after the
// calls in flight have finished or [Limits].Grace has passed. When ctx ends, it cancels the calls in flight and returns
// the cause of ctx. When [Server.Shutdown] is called, it finishes them and returns nil. Any other error comes from the
// connection.
//
// A byte stream does not authenticate its client, so the caller is [principal.Local], with
// LocalScopes: make sure that only trusted programs can connect. If the program has authenticated
// the client itself, it passes the caller with auth.NewContext. The connection then ends when the
// caller expires.
func (s *Server) ServeConn(ctx context.Context, conn transport.Conn) error {
	c, err := s.ready()
	if err != nil {
		conn.Close()
		return err
	}
	if err := s.serveStream(ctx, c, conn, &c.stream); err != streamserver.ErrNoMessage {
		return err
	}
	return nil
}

func (s *Server) serveStream(ctx context.Context, c *core, conn transport.Conn, wire *streamserver.Server) error {
	if !c.enter() {
		conn.Close()
		return ErrShutdown
	}
	defer c.conns.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	caller := auth.FromContext(ctx)
	switch {
	case caller == nil:
		return wire.Serve(s.local(ctx), c.draining, conn, principal.Local)
	case caller.Principal == principal.Anonymous:
		conn.Close()
		return errNoPrincipal
	case !caller.Expiry.IsZero():
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, caller.Expiry)
		defer stop()
	}
	return wire.Serve(ctx, c.draining, conn, caller.Principal)
}

var errNoPrincipal = errors.New("server: the caller in the context has no principal: set auth.Info.Principal to a " +
	"principal.New, and check its error")

// Shutdown stops the server gracefully. It rejects new requests, over HTTP with status 503. It
// ends open event streams and subscriptions, waits for the calls in flight and for the tasks, and
// closes the connections of Run and ServeConn. It fails the questions of calls over HTTP with SSE, and without
// Store it cancels the tasks and parked calls that wait for the client's answer, because no request can bring it. If
// ctx ends first, it cancels the remaining calls and tasks, waits up to [Limits].Grace for the tasks and for the calls
// of Run and ServeConn, and returns the error of ctx. The server cannot be used again. Safe for concurrent use.
func (s *Server) Shutdown(ctx context.Context) error {
	c, err := s.ready()
	if err != nil {
		return err
	}
	c.beginShutdown()
	s.announceShutdown(ctx, c)
	err = errors.Join(c.http.Shutdown(ctx), c.http.Legacy.Close(ctx))
	done := make(chan struct{})
	go func() {
		c.conns.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		c.cancel()
		<-done // bounded: each connection waits no longer than its grace
		err = ctx.Err()
	}
	s.replicas.stop()
	running := s.tasks.runner.Close(ctx, orDefault(s.Limits.Grace, 2*time.Second))
	if err = errors.Join(err, running); errors.Is(running, tasks.ErrHandlersRun) {
		c.lease.Abandon()
	} else {
		err = errors.Join(err, c.lease.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, s.followers.close(ctx))
}

// announceTimeout is shorter than the time-out of a store operation, because the calls in flight need the time that
// Shutdown has.
const announceTimeout = time.Second

// announceShutdown tells the other replicas that this one is shutting down, before its streams end and their clients
// connect to another replica.
func (s *Server) announceShutdown(ctx context.Context, c *core) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if err := c.lease.Drain(ctx); err != nil {
		s.logger().WarnContext(ctx, "cannot tell the other replicas of the shutdown", "error", err)
	}
}

// Main is the whole main function of a program that is one server. It chooses what to serve:
//
//   - With the flag -http ADDR it serves HTTP on that address; see [Server.ListenAndServe].
//   - At a terminal it serves HTTP on 127.0.0.1:8080.
//   - Otherwise a client has started the program, and Main serves standard input and output, as
//     [Server.Run] does. If standard input ends before the first message, as under a service
//     manager or in a container, Main prints how to serve HTTP and exits with status 2.
//
// Main defines the flag and calls [flag.Parse], unless the program has called it before. Such a program must define the
// flag itself, with flag.String("http", "", usage). A program that parses its flags with another package calls Run or
// ListenAndServe instead of Main.
//
// An interrupt or a termination signal ends the program. Over HTTP, calls in flight have five
// seconds to finish; on standard input they are cancelled. A second signal ends the program at
// once.
//
// Main returns when the server has ended without an error. Otherwise it prints the error to
// standard error and exits with status 1.
func Main(s *Server) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	if err := serveMain(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, streamserver.ErrNoMessage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func serveMain(ctx context.Context, s *Server) error {
	address, hasFlag := httpFlag()
	if address == "" && !isTerminal(os.Stdin) {
		err := s.runStdio(ctx)
		if err == streamserver.ErrNoMessage {
			err = fmt.Errorf("standard %w: start the program from an MCP client", err)
			if hasFlag {
				err = fmt.Errorf("%w, or serve HTTP with the flag -http, for example -http %s", err, defaultAddress)
			}
		}
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	listener, err := listen(address)
	if err != nil {
		if hasFlag {
			err = fmt.Errorf("%w: choose the address with the flag -http, for example -http 127.0.0.1:8081", err)
		}
		return err
	}
	fmt.Fprintf(os.Stderr, "%s serves MCP on http://%s/mcp; press Ctrl-C to stop\n", s.implementation().Name,
		listener.Addr())
	return s.Serve(ctx, listener)
}

// httpFlag returns the value of the flag -http, and whether the program has this flag. A flag of
// the program with this name and a value of another type is not meant for Main.
func httpFlag() (address string, ok bool) {
	if !flag.Parsed() {
		if flag.Lookup("http") == nil {
			flag.String("http", "",
				"serve HTTP on `ADDR`, such as "+defaultAddress+"; for other machines, 0.0.0.0:8080")
		}
		flag.Parse()
	}
	if f := flag.Lookup("http"); f != nil {
		if value, isGetter := f.Value.(flag.Getter); isGetter {
			address, ok = value.Get().(string)
		}
	}
	return address, ok
}
