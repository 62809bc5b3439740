// Command gateway presents several servers as one, over standard input and output: the tool
// greet of the server hello is called hello__greet. The tools of a server are added when it is
// ready.
//
//	go build -o bin/ ./examples/hello ./examples/weather
//	parley watch -- go run ./examples/gateway bin/hello bin/weather
package main

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// serve serves the tools of the programs until the client disconnects.
func serve(ctx context.Context, programs []string) error {
	h := new(host.Host)
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".exe")
		h.Servers = append(h.Servers, host.ServerConfig{Name: name, Target: client.Command(program)})
	}
	s := &server.Server{Name: "gateway", Version: "1.0.0"}
	g, err := gateway.New(h, s)
	if err != nil {
		return err
	}
	if err := h.Start(); err != nil {
		return err
	}
	defer h.Close()

	gatewayCtx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(gatewayCtx)
	}()
	err = s.Run(ctx)
	stop()
	<-done
	return err
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: gateway PROGRAM…")
	}
	if err := serve(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
