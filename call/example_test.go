package call_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// newServer returns a server with two tools and the middleware.
func newServer(middleware ...call.Middleware) *server.Server {
	s := &server.Server{Name: "example", Middleware: middleware}
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(context.Context, struct{}) (string, error) { return "hello", nil })
	server.AddTool(s, mcp.Tool{Name: "internal-reset"}, func(context.Context, struct{}) (string, error) {
		return "done", nil
	})
	return s
}

// dial connects a client to a server in memory.
func dial(s *server.Server) *client.Client {
	near, far := transport.Pipe()
	go func() { _ = s.ServeConn(context.Background(), far) }()
	c, err := client.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// Middleware sees each call with its result. This one prints the outcome of tool calls.
func ExampleMiddleware() {
	print := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if r, ok := result.(*mcp.CallToolResult); ok {
				fmt.Println("called", c.Name(), "with isError", r.IsError)
			}
			return result, err
		}
	}
	c := dial(newServer(print))
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "greet", nil)
	fmt.Println(text, err)
	// Output:
	// called greet with isError false
	// hello <nil>
}

// Results may be shared between calls, so the middleware returns a copy with the other list.
func ExampleMiddleware_filter() {
	filter := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if list, ok := result.(*mcp.ListToolsResult); ok {
				filtered := *list
				filtered.Tools = nil
				for _, tool := range list.Tools {
					if !strings.HasPrefix(tool.Name, "internal-") {
						filtered.Tools = append(filtered.Tools, tool)
					}
				}
				return &filtered, err
			}
			return result, err
		}
	}
	c := dial(newServer(filter))
	defer c.Close()
	for tool, err := range c.Tools(context.Background()) {
		fmt.Println(tool.Name, err)
	}
	// Output:
	// greet <nil>
}

// Middleware runs for every method: for the handshake, for pings and for methods that the
// server does not know.
func ExampleMiddleware_count() {
	counts := make(map[string]int) // use a mutex if calls are concurrent
	count := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			counts[c.Method()]++
			return next(ctx, c)
		}
	}
	c := dial(newServer(count))
	_, _ = client.CallTool[string](context.Background(), c, "greet", nil)
	_, _ = c.CallExtension(context.Background(), "com.example/unknown", nil)
	c.Close()
	fmt.Println(counts)
	// Output:
	// map[com.example/unknown:1 server/discover:1 tools/call:1]
}

// Middleware may replace a result. This one adds a text to the results of a tool.
func ExampleMiddleware_rewrite() {
	rewrite := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if r, ok := result.(*mcp.CallToolResult); ok && c.Name() == "greet" {
				changed := *r
				changed.Content = append(slices.Clone(r.Content), mcp.Text("from the middleware"))
				return &changed, err
			}
			return result, err
		}
	}
	c := dial(newServer(rewrite))
	defer c.Close()
	result, err := c.CallTool(context.Background(), "greet", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, content := range result.Content {
		fmt.Println(content.(*mcp.TextContent).Text)
	}
	// Output:
	// hello
	// from the middleware
}

// The params of a call are decoded into the type for its method. The error for params that do not fit is meant
// for the client.
func ExampleParamsOf() {
	audit := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodCallTool {
				params, err := call.ParamsOf[mcp.CallToolParams](c)
				if err != nil {
					return nil, err
				}
				fmt.Printf("%s with %s\n", params.Name, params.Arguments)
			}
			return next(ctx, c)
		}
	}
	c := dial(newServer(audit))
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "greet", map[string]any{})
	fmt.Println(text, err)
	// Output:
	// greet with {}
	// hello <nil>
}
