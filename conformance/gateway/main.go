// Command gateway is a gateway in front of one server, for the conformance suite: the names of the server's tools and
// prompts are the same at the gateway.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/conformance/internal/endpoint"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	upstream := flag.String("server", "", "`URL` of the server behind the gateway")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *upstream); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, upstream string) error {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "server", Target: client.URL(upstream), NoPrefix: true}}}
	s := &server.Server{Name: "parley-conformance", Version: "1.0.0",
		Info: mcp.Implementation{Title: "Parley under test"}}
	g, err := gateway.New(h, s)
	if err != nil {
		return err
	}
	return g.Serve(ctx, func(ctx context.Context) error {
		if err := g.WaitReady(ctx); err != nil {
			return err
		}
		return endpoint.Serve(ctx, s, s, listen)
	})
}
