package main

import (
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
	"github.com/parley-mcp/parley/server"
)

const (
	defaultAddr = "127.0.0.1:7777"
	endpoint    = "/mcp"

	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second // headers and body of one request
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 5 * time.Second
)

// httpFlags are the flags of commands that serve HTTP.
type httpFlags struct {
	addr  string
	trace bool
	auth  authFlag
}

func (f *httpFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "addr", defaultAddr, "address to listen on; other machines reach it only if it says so")
	cmd.Flags().BoolVar(&f.trace, "trace", false, "print every message to stderr")
	f.auth.add(cmd)
}

// listen begins to listen. Beyond this machine it only does when the address says
// which interface is meant, and with a warning if nobody who calls is authenticated.
func (f *httpFlags) listen(cmd *cobra.Command) (net.Listener, error) {
	if err := f.auth.check(); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		return nil, fmt.Errorf("--addr %q: write HOST:PORT, such as %s", f.addr, defaultAddr)
	}
	if host == "" {
		return nil, fmt.Errorf("--addr %q would let every machine in: write 127.0.0.1:%s, or 0.0.0.0:%s if that is meant", f.addr, port, port)
	}
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", f.addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: stop the program that listens there, or choose another port with --addr", f.addr)
	case err != nil:
		return nil, fmt.Errorf("--addr: %w", err)
	}
	if !isLoopback(listener) && !f.auth.wanted() {
		cmd.PrintErrf("parley: warning: %s can be reached from other machines, and nobody who calls is authenticated\n", listener.Addr())
	}
	return listener, nil
}

// urlOf is the endpoint's URL, as a client on this machine writes it.
func urlOf(listener net.Listener) string {
	addr := listener.Addr().String()
	if a, err := netip.ParseAddrPort(addr); err == nil && a.Addr().IsUnspecified() {
		addr = fmt.Sprintf("127.0.0.1:%d", a.Port())
	}
	return "http://" + addr + endpoint
}

// serve serves s until ctx ends, and then lets the calls in flight finish for a
// while. It closes the listener.
func (f *httpFlags) serve(ctx context.Context, cmd *cobra.Command, listener net.Listener, s *server.Server) error {
	var handler http.Handler = s
	if f.trace {
		handler = newTracer(cmd.ErrOrStderr()).handler(handler)
	}
	mux := http.NewServeMux()
	mux.Handle(endpoint, handler)
	if s.Auth != nil {
		mux.Handle(auth.MetadataPath, s.Auth.MetadataHandler())
		mux.Handle(auth.MetadataPath+"/", s.Auth.MetadataHandler())
	}
	h := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // connections that break are no news
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.Shutdown(ending); err != nil {
		cmd.PrintErrln("parley: calls that had not finished were ended")
	}
	if err := h.Shutdown(ending); err != nil {
		_ = h.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
