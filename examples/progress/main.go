// Command progress is a server with a tool that takes a second, reports its progress, and stops
// when the client cancels the call.
//
//	parley call count -- go run ./examples/progress
package main

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func main() {
	s := &server.Server{Name: "progress", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Count slowly"},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := 1; i <= 10 && ctx.Err() == nil; i++ {
				time.Sleep(100 * time.Millisecond)
				_ = server.Progress(ctx, float64(i), 10, "counting") // sent if the client has requested it
			}
			return "counted to 10", ctx.Err()
		})
	server.Main(s)
}
