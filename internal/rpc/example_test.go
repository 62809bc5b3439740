package rpc_test

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func ExampleMiddleware() {
	counted := func(next rpc.Handler) rpc.Handler {
		return func(ctx context.Context, c *rpc.Call) rpc.Outcome {
			out := next(ctx, c)
			if c.Method == mcp.MethodCallTool {
				fmt.Println("a tool was called, error:", out.Err)
			}
			return out
		}
	}
	s := &server.Server{Name: "counted", Middleware: []rpc.Middleware{counted}}
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
	// a tool was called, error: <nil>
	// pong <nil>
}
