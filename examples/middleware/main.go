// Command middleware wraps every call of a server twice: one times it, the other
// lets so many through at once.
//
//	parley call nest --verbose -- go run ./examples/middleware
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

// timed logs how long each call took.
func timed(logger *slog.Logger) call.Middleware {
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) call.Outcome {
			begin := time.Now()
			out := next(ctx, c)
			logger.InfoContext(ctx, "served", "method", c.Method, "revision", c.Revision, "took", time.Since(begin), "failed", out.Err != nil)
			return out
		}
	}
}

// limited refuses a tool call while n others are running. Other methods pass.
func limited(n int) call.Middleware {
	places := make(chan struct{}, n)
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) call.Outcome {
			if c.Method != mcp.MethodCallTool {
				return next(ctx, c)
			}
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				return next(ctx, c)
			default:
				return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInternalError, "too many calls at once: try again later"))
			}
		}
	}
}

func newServer(logger *slog.Logger, atOnce int) *server.Server {
	s := &server.Server{Name: "middleware", Version: "1.0.0", Middleware: []call.Middleware{timed(logger), limited(atOnce)}}
	server.AddTool(s, mcp.Tool{Name: "nest", Description: "Wait for a moment"},
		func(ctx context.Context, _ struct{}) (string, error) { return "done", ctx.Err() })
	return s
}

func main() {
	if err := newServer(slog.Default(), 8).Run(context.Background()); err != nil { // slog.Default writes to standard error
		log.Fatal(err)
	}
}
