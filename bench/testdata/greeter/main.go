// Greeter serves an MCP server with one tool over standard input and output, without a rate limit.
package main

import (
	"context"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func main() {
	s := &server.Server{Name: "greeter", Version: "1.0.0", Limits: server.Limits{CallsPerSecond: 1e9}}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(_ context.Context, in struct{ Name string }) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	server.Main(s)
}
