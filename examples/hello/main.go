// Command hello is the smallest server: one tool. If a client starts the program, it
// serves standard input and output. At a terminal, it serves HTTP on 127.0.0.1:8080.
// With the flag -http, it serves HTTP on the given address, even without a terminal.
//
//	parley call greet name=Ada -- go run ./examples/hello
//	go run ./examples/hello -http 127.0.0.1:8081
package main

import (
	"context"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type greeting struct {
	Name string `json:"name" doc:"name of the person"`
}

func main() {
	s := &server.Server{Name: "hello", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person by name"},
		func(_ context.Context, in greeting) (string, error) { return "Hello, " + in.Name + "!", nil })
	server.Main(s)
}
