package server_test

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// A tool for administrators does not exist for other callers.
func ExampleVisibleTo() {
	administrators := map[principal.Principal]bool{} // filled by the program
	s := &server.Server{Name: "office"}
	server.AddTool(s, mcp.Tool{Name: "clock"}, func(context.Context, struct{}) (string, error) { return "noon", nil })
	server.AddTool(s, mcp.Tool{Name: "shutdown"}, func(context.Context, struct{}) (string, error) { return "bye", nil },
		server.VisibleTo(func(who principal.Principal, _ string) bool { return administrators[who] }))

	ctx := context.Background()
	near, far := transport.Pipe()
	go s.ServeConn(ctx, far)
	c, err := client.Dial(ctx, client.Conn(near))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(ctx) {
		fmt.Println(tool.Name, err)
	}
	_, err = c.CallTool(ctx, "shutdown", nil)
	fmt.Println(err)
	// Output:
	// clock <nil>
	// tools/call: unknown tool: "shutdown" (code -32602)
}

// Clients may cache the lists for a minute, and one resource for an hour.
func ExampleCached() {
	s := &server.Server{Name: "library", ListCache: server.CachePolicy{TTL: 60e9}}
	server.AddStatic(s, mcp.Resource{URI: "book://1", Name: "A book"}, "Once upon a time …",
		server.Cached(server.CachePolicy{TTL: 3600e9, Public: true}))

	ctx := context.Background()
	near, far := transport.Pipe()
	go s.ServeConn(ctx, far)
	c, err := client.Dial(ctx, client.Conn(near))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	book, err := c.ReadResource(ctx, "book://1")
	fmt.Println(*book.TTLMs, book.CacheScope, err)
	// Output: 3600000 public <nil>
}
