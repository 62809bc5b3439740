// Command myproject is an MCP server. A client starts it, or it serves HTTP:
//
//	parley call greet name=Ada -- go run .
//	go run . -http 127.0.0.1:8080
package main

import (
	"context"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type greeting struct {
	Name string `json:"name" doc:"name of the person" minLength:"1"`
}

func greet(_ context.Context, in greeting) (string, error) {
	return "Hello, " + in.Name + "!", nil
}

func newServer() *server.Server {
	s := &server.Server{Name: "myproject", Version: "0.1.0"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Greet a person by name"}, greet)
	return s
}

func main() {
	server.Main(newServer())
}
