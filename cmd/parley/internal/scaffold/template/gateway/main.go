// Command myproject is a gateway: it presents several MCP servers as one. The tool greet of the server demo is called
// demo__greet there.
//
//	go run . -http 127.0.0.1:8080
//	parley call http://127.0.0.1:8080/mcp demo__greet name=Ada
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// servers are the servers behind the gateway. Replace the demo with yours: programs, or client.URL("https://…").
var servers = []host.ServerConfig{
	{Name: "demo", Target: client.Command("parley", "serve", "--stdio")},
}

// policy decides about every call. The user of the client is asked about calls that no rule matches.
var policy = host.Rules{Version: "1", Default: host.Ask, Rules: []host.Rule{
	{Server: "demo", Tool: "greet", Action: host.Allow},
}}

func newGateway(servers []host.ServerConfig) (*gateway.Gateway, *server.Server, error) {
	h := &host.Host{
		Servers: servers,
		Policy:  policy,
		Approve: gateway.Approve,                     // asks the user of the client that calls
		Audit:   slog.NewJSONHandler(os.Stderr, nil), // a line for each call
	}
	s := &server.Server{Name: "myproject", Version: "0.1.0"}
	g, err := gateway.New(h, s)
	return g, s, err
}

func main() {
	address := flag.String("http", "", "serve HTTP on this address instead of standard input and output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, s, err := newGateway(servers)
	if err != nil {
		log.Fatal(err)
	}
	err = g.Serve(ctx, func(ctx context.Context) error {
		if *address != "" {
			return s.ListenAndServe(ctx, *address)
		}
		return s.Run(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
}
