// Command hellohttp is the hello server over HTTP, on 127.0.0.1 and the port in the environment
// variable PORT. One endpoint serves clients of every revision.
//
//	PORT=8080 go run ./examples/hellohttp
//	parley call http://127.0.0.1:8080/mcp greet Name=Ada
package main

import (
	"context"
	"log"
	"os"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type greeting struct{ Name string }

func main() {
	s := &server.Server{Name: "hello", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person by name"},
		func(_ context.Context, in greeting) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	log.Fatal(s.ListenAndServe(context.Background(), "127.0.0.1:"+os.Getenv("PORT")))
}
