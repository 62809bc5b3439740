// Command hellohttp is the hello server over HTTP. One endpoint serves clients of
// every revision:
//
//	go run ./examples/hellohttp -addr 127.0.0.1:8080
//	parley call http://127.0.0.1:8080/mcp greet name=Ada
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

type greeting struct {
	Name string `json:"name" doc:"who to greet"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "hello", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet somebody by name"},
		func(_ context.Context, in greeting) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	return s
}

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen; nobody is authenticated, so stay on this machine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening at http://%s/mcp", listener.Addr())
	s := newServer()
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(grace) // first: it ends the streams that web would wait for
		_ = web.Shutdown(grace)
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
