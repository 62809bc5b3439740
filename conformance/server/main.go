// Command server is the server that the official conformance suite tests. It has the fixtures that the scenarios
// expect, prints its URL as the first line, and serves until it is interrupted.
//
//	go run ./conformance/server -listen 127.0.0.1:8000
package main

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

	"github.com/parley-mcp/parley/server"
)

func main() {
	listen := "127.0.0.1:0"
	flag.StringVar(&listen, "listen", listen, "`address` to listen on; port 0 is a free port")
	flag.StringVar(&listen, "addr", listen, "the same as -listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, listen); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// grace is the time that calls in flight have after an interrupt. The suite leaves calls open, and conformance/run waits
// 10 seconds for the exit.
const grace = 3 * time.Second

func run(ctx context.Context, listen string) error {
	s := &server.Server{Name: "parley-conformance", Title: "Parley under test", Version: "1.0.0"}
	addContentTools(s)
	addSchemaTools(s)
	addInputRequests(s)
	addResources(s)
	addPrompts(s)
	addChanges(s)
	addLogging(s)
	addStreams(s)
	addTasks(s)

	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	fmt.Printf("http://%s/mcp\n", listener.Addr())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	// The remaining calls are those of the suite, which has ended.
	if err := s.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := h.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
