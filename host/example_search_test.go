package host_test

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// A model that cannot use all definitions at once searches for tools, and receives the definitions that it needs.
func ExampleHost_Search() {
	files := &server.Server{Name: "files"}
	server.AddTool(files, mcp.Tool{Name: "read_file", Description: "Read a text file"}, func(context.Context, struct {
		Path string `json:"path"`
	}) (string, error) {
		return "milk, eggs", nil
	})
	server.AddTool(files, mcp.Tool{Name: "delete_file", Description: "Remove a file"},
		func(context.Context, struct{}) (string, error) {
			return "", nil
		})
	near, far := transport.Pipe()
	go func() { _ = files.ServeConn(context.Background(), far) }()

	h := &host.Host{Servers: []host.ServerConfig{{Name: "files", Target: client.Conn(near)}}}
	if err := h.Start(); err != nil {
		panic(err)
	}
	defer h.Close()
	ctx := context.Background()
	if err := h.WaitReady(ctx); err != nil {
		panic(err)
	}
	for _, tool := range h.Search(ctx, "read my notes", 1) {
		fmt.Printf("%s\n%s\n", tool.Name, tool.Definition.InputSchema)
	}
	// Output:
	// files__read_file
	// {"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}
}
