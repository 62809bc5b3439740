// Command hello is the smallest server: one tool, over standard input and output.
// A host starts it as a child process, and so does the parley program:
//
//	parley call greet name=Ada -- go run ./examples/hello
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := newServer().Run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
