// Command deployed is a server for production: behind a proxy or with TLS, with access tokens, health checks,
// time-outs, and an end that finishes the requests in flight. On one machine it needs no flags:
//
//	go run ./examples/deployed
//	parley call http://127.0.0.1:8080/mcp greet name=Ada
//
// Behind a proxy at https://mcp.example.com:
//
//	deployed -http 0.0.0.0:8080 -public-url https://mcp.example.com/mcp -issuer https://login.example.com
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

var (
	address    = flag.String("http", "127.0.0.1:8080", "address to listen on")
	publicURL  = flag.String("public-url", "", "URL of the endpoint that clients use, if a proxy is in front")
	issuer     = flag.String("issuer", "", "authorization server; if empty, requests need no access token")
	tlsCert    = flag.String("tls-cert", "", "file with the certificate; if empty, serve without TLS")
	tlsKey     = flag.String("tls-key", "", "file with the key of the certificate")
	drainDelay = flag.Duration("drain-delay", 0, "time until the load balancer notices that /readyz is 503")
)

type greeting struct {
	Name string `json:"name" doc:"name of the person" maxLength:"80"`
}

func newServer() (*server.Server, error) {
	s := &server.Server{Name: "deployed", Version: "1.0.0",
		Middleware: []call.Middleware{call.LogCalls(slog.Default())}}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person by name"},
		func(_ context.Context, in greeting) (string, error) { return "Hello, " + in.Name + "!", nil })
	if *publicURL != "" {
		u, err := url.Parse(*publicURL)
		if err != nil {
			return nil, err
		}
		s.AllowedHosts = []string{u.Host} // the Host header that clients send, and the proxy must keep
	}
	if *issuer != "" {
		s.Auth = jwt.Protect(&auth.ProtectedResource{URI: *publicURL, Issuers: []string{*issuer}})
	}
	return s, s.Check()
}

// routes serves the endpoint, the metadata that clients need to log in, and the pages for the platform.
func routes(s *server.Server, draining *atomic.Bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	if s.Auth != nil {
		mux.Handle(auth.MetadataPath, s.Auth.MetadataHandler())
		mux.Handle(auth.MetadataPath+"/", s.Auth.MetadataHandler())
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// serve serves until ctx ends, and then finishes the requests in flight.
func serve(ctx context.Context, s *server.Server, listener net.Listener) error {
	var draining atomic.Bool
	web := &http.Server{
		Handler: routes(s, &draining),
		// No time-outs for bodies and responses here: event streams may last for days, and s limits the rest.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	served := make(chan error, 1)
	go func() {
		if *tlsCert != "" {
			served <- web.ServeTLS(listener, *tlsCert, *tlsKey)
		} else {
			served <- web.Serve(listener)
		}
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	draining.Store(true)
	select {
	case err := <-served:
		return err
	case <-time.After(*drainDelay):
	}
	grace, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err := s.Shutdown(grace) // first, because it ends the event streams that web.Shutdown waits for
	return errors.Join(err, web.Shutdown(grace))
}

func run(ctx context.Context) error {
	s, err := newServer()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	scheme := "http"
	if *tlsCert != "" {
		scheme = "https"
	}
	slog.Info("serving", "url", scheme+"://"+listener.Addr().String()+"/mcp", "authorization", s.Auth != nil)
	return serve(ctx, s, listener)
}

func main() {
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the server has ended", "error", err)
		os.Exit(1)
	}
}
