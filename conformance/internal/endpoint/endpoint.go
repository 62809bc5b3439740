// Package endpoint serves a server to the official conformance suite.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/server"
)

// grace is the time that calls in flight have after an interrupt. The suite leaves calls open, and conformance/run
// waits 10 seconds for the exit.
const grace = 3 * time.Second

// Serve listens on addr, prints its URL on a line, and serves h, which is s or middleware around it, until ctx ends.
func Serve(ctx context.Context, s *server.Server, h http.Handler, addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	httpServer := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- httpServer.Serve(listener) }()
	fmt.Printf("http://%s/mcp\n", listener.Addr())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	// The remaining calls come from the suite, which has ended.
	if err := s.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := httpServer.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
