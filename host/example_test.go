package host_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func Example() {
	s := &server.Server{Name: "greeter"}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{mcp.Text("Hello!")}, nil
	})
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()

	h := &host.Host{Servers: []host.Server{
		{Name: "greeter", Target: client.URL(endpoint.URL)},
		// {Name: "files", Target: client.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir)},
	}}
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()

	// Whoever calls waits until the server is there.
	result, err := h.CallTool(context.Background(), "greeter", "greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	for _, status := range h.Status() {
		fmt.Println(status.Name, status.State, status.Revision)
	}
	// Output:
	// Hello!
	// greeter ready 2026-07-28
}
