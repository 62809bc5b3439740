package call_test

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func ExampleMiddleware() {
	printErrors := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if c.Method() == mcp.MethodCallTool {
				fmt.Printf("tool %s was called, error: %v\n", c.Name(), err)
			}
			return result, err
		}
	}
	s := &server.Server{Name: "example", Middleware: []call.Middleware{printErrors}}
	server.AddTool(s, mcp.Tool{Name: "ping"}, func(context.Context, struct{}) (string, error) { return "pong", nil })

	ctx := context.Background()
	near, far := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(ctx, far) }()
	c, err := client.Dial(ctx, client.Conn(near))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := client.CallTool[string](ctx, c, "ping", nil)
	fmt.Println(text, err)
	_ = c.Close()
	<-served
	// Output:
	// tool ping was called, error: <nil>
	// pong <nil>
}
