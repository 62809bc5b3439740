// Command region is a server with a tool argument that clients of 2026-07-28 mirror in the header
// Mcp-Param-Region, so that a proxy can route requests without reading their bodies. The server
// verifies that the header matches the argument.
//
//	go run ./examples/region -addr 127.0.0.1:8080
//	parley call http://127.0.0.1:8080 find region=eu number=7
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type order struct {
	Region string `json:"region" enum:"eu,us" mcp-header:"Region" doc:"region of the order"`
	Number int    `json:"number"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "region", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "find", Description: "Find an order"},
		func(_ context.Context, in order) (order, error) { return in, nil })
	return s
}

// routed logs the region of each request. Older clients do not send the header.
func routed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if region := r.Header.Get("Mcp-Param-Region"); region != "" {
			log.Printf("route the call of %q to the region %q", r.Header.Get("Mcp-Name"), region)
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080",
		"address to listen on; requests need no authorization, so use a loopback address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening at http://%s", listener.Addr())
	s := newServer()
	web := &http.Server{Handler: routed(s), ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		shutdown, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(shutdown)
		_ = web.Shutdown(shutdown)
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-stopped // Serve returns before the requests in flight have finished
}
