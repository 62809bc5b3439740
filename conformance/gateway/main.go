// Command gateway is a gateway in front of one server, for the conformance suite: the names of the server's tools and
// prompts are the same at the gateway.
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
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	upstream := flag.String("server", "", "`URL` of the server behind the gateway")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *upstream); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// grace is the time that calls in flight have after an interrupt. The suite leaves calls open, and conformance/run waits
// 10 seconds for the exit.
const grace = 3 * time.Second

func run(ctx context.Context, listen, upstream string) error {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "server", Target: client.URL(upstream), Prefix: new("")}}}
	s := &server.Server{Name: "parley-conformance", Title: "Parley under test", Version: "1.0.0"}
	g := gateway.New(h, s)
	if err := h.Start(); err != nil {
		return err
	}
	defer h.Close()
	var running sync.WaitGroup
	defer running.Wait()
	watching, cancel := context.WithCancel(context.Background())
	defer cancel()
	running.Go(func() { g.Run(watching) })
	if err := g.WaitReady(ctx); err != nil {
		return err
	}

	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	endpoint := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	running.Go(func() { served <- endpoint.Serve(listener) })
	fmt.Printf("http://%s/mcp\n", listener.Addr())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancelEnding := context.WithTimeout(context.Background(), grace)
	defer cancelEnding()
	// The remaining calls are those of the suite, which has ended.
	if err := s.Shutdown(ending); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return endpoint.Close()
}
