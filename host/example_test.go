package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// serveTool starts an HTTP server with one tool, which returns a text.
func serveTool(name, text string) *httptest.Server {
	s := &server.Server{Name: "example"}
	server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{mcp.Text(text)}, nil
	})
	return httptest.NewServer(s)
}

// A Host merges the tools of its servers. A program that uses a language model passes
// the merged list to the model, and calls the tools by the names that the model
// returns.
func Example() {
	hello, clock := serveTool("greet", "Hello!"), serveTool("now", "noon")
	defer hello.Close()
	defer clock.Close()

	h := &host.Host{Servers: []host.ServerConfig{
		{Name: "hello", Target: client.URL(hello.URL)},
		{Name: "clock", Target: client.URL(clock.URL)},
		// {Name: "files", Target: client.Command("npx", "-y", "@modelcontextprotocol/server-filesystem", dir)},
	}}
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	ctx := context.Background()
	if err := h.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, tool := range h.Tools() {
		fmt.Println(tool.Name)
	}
	result, err := h.Call(ctx, "hello__greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// hello__greet
	// clock__now
	// Hello!
}

// One server of two does not start. The other can be used.
func ExampleHost_WaitReady() {
	hello := serveTool("greet", "Hello!")
	defer hello.Close()

	h := &host.Host{
		Servers: []host.ServerConfig{
			{Name: "hello", Target: client.URL(hello.URL)},
			{Name: "missing", Target: client.Command("no-such-program")},
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	err := h.WaitReady(context.Background())
	if down := new(host.DownError); errors.As(err, &down) {
		fmt.Println("down:", down.Server)
	}
	for _, status := range h.Status() {
		fmt.Println(status.Name, status.State, len(status.Tools))
	}
	// Output:
	// down: missing
	// hello ready 1
	// missing down 0
}

// Watch reports each change of the state of a server.
func ExampleHost_Watch() {
	hello := serveTool("greet", "Hello!")
	defer hello.Close()

	h := &host.Host{Servers: []host.ServerConfig{{Name: "hello", Target: client.URL(hello.URL)}}}
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	for status := range h.Watch(context.Background()) {
		if status.State == host.Ready {
			fmt.Println(status.Name, "has", len(status.Tools), "tool")
			break
		}
	}
	// Output: hello has 1 tool
}

// Tools that read can be called. The user is asked about each call of the others.
func ExampleRules() {
	clock := serveTool("set_time", "done")
	defer clock.Close()

	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "clock", Target: client.URL(clock.URL)}},
		Policy: host.Rules{Version: "1", Default: host.Deny, Rules: []host.Rule{
			{Server: "clock", Tool: "get_*", Action: host.Allow},
			{Server: "clock", Tool: "*", Action: host.Ask},
		}},
		Approve: func(_ context.Context, a *host.Approval) (bool, error) {
			fmt.Println("Allow", a.Request.Name, string(a.Request.Arguments))
			return false, nil // as if the user declined
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	if err := h.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	_, err := h.Client("clock").CallTool(context.Background(), "set_time", map[string]any{"hour": 7})
	fmt.Println(err)
	// Output:
	// Allow set_time {"hour":7}
	// tools/call set_time of server "clock" is denied: it was not approved: the user declined
}
