// Command middleware is a server with two middlewares: one logs the duration of each request, the
// other limits the number of concurrent tool calls.
//
//	parley call greet --verbose -- go run ./examples/middleware
package main

import (
	"context"
	"log"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// timed logs the duration of each request.
func timed(logger *slog.Logger) call.Middleware {
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			begin := time.Now()
			result, err := next(ctx, c)
			logger.InfoContext(ctx, "served a request", "method", c.Method(), "revision", c.Revision(), "took",
				time.Since(begin), "failed", err != nil)
			return result, err
		}
	}
}

// limited rejects a tool call while n others are running. It does not limit other methods.
func limited(n int) call.Middleware {
	running := make(chan struct{}, n)
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() != mcp.MethodCallTool {
				return next(ctx, c)
			}
			select {
			case running <- struct{}{}:
				defer func() { <-running }()
				return next(ctx, c)
			default:
				return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "too many concurrent calls; try again later")
			}
		}
	}
}

func newServer(logger *slog.Logger, maxCalls int) *server.Server {
	s := &server.Server{Name: "middleware", Version: "1.0.0",
		Middleware: []call.Middleware{timed(logger), limited(maxCalls)}}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Return a greeting"},
		func(ctx context.Context, _ struct{}) (string, error) { return "hello", ctx.Err() })
	return s
}

func main() {
	if err := newServer(slog.Default(), 8).Run(context.Background()); err != nil { // slog.Default writes to stderr
		log.Fatal(err)
	}
}
