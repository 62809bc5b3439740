// Command gateway presents several servers as one: the tool greet of the server hello is called hello__greet. A policy
// decides on the calls, and the user of the client approves calls that it does not allow by itself. The tools of a
// server are added once it is ready.
//
//	go build -o bin/ ./examples/hello ./examples/weather
//	go run ./examples/gateway -http 127.0.0.1:8080 bin/hello bin/weather
//	parley call http://127.0.0.1:8080/mcp weather__weather city=Oslo
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// newHost returns the host of the programs. It writes an audit log to standard error.
func newHost(programs []string) *host.Host {
	h := &host.Host{
		Policy: host.Rules{Version: "1", Default: host.Ask, Rules: []host.Rule{
			{Server: "hello", Tool: "greet", Action: host.Allow},
		}},
		Approve: gateway.Approve, // asks the user of the calling client
		Audit:   slog.NewJSONHandler(os.Stderr, nil),
	}
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".exe")
		h.Servers = append(h.Servers, host.ServerConfig{Name: name, Target: client.Command(program)})
	}
	return h
}

// serve serves the tools of a host, over HTTP if there is an address, until ctx ends or the client disconnects.
func serve(ctx context.Context, h *host.Host, address string) error {
	s := &server.Server{Name: "gateway", Version: "1.0.0"}
	g, err := gateway.New(h, s)
	if err != nil {
		return err
	}
	return g.Serve(ctx, func(ctx context.Context) error {
		if address != "" {
			return s.ListenAndServe(ctx, address)
		}
		return s.Run(ctx)
	})
}

func main() {
	address := flag.String("http", "", "serve HTTP on this address instead of standard input and output")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: gateway [-http ADDRESS] PROGRAM…")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, newHost(flag.Args()), *address); err != nil {
		log.Fatal(err)
	}
}
