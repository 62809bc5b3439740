package guide_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// audited logs the arguments of each tool call, and rejects those of one tool.
func audited(logger *slog.Logger) call.Middleware {
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() != mcp.MethodCallTool {
				return next(ctx, c)
			}
			params, err := call.ParamsOf[mcp.CallToolParams](c)
			if err != nil {
				return nil, err
			}
			logger.InfoContext(ctx, "tool call", "caller", c.Principal(), "tool", params.Name,
				"arguments", string(params.Arguments))
			if params.Name == "reset" {
				return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "reset is out of order")
			}
			return next(ctx, c)
		}
	}
}

// keyed rejects calls over HTTP without a key for the service behind the server.
func keyed(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		if c.Method() == mcp.MethodCallTool && server.HeaderOf(ctx).Get("X-Key") == "" {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "send your key in the header X-Key")
		}
		return next(ctx, c)
	}
}

func TestMiddlewareReadsHeaders(t *testing.T) {
	s := &server.Server{Headers: func() []string { return []string{"X-Key"} }, Middleware: []call.Middleware{keyed}}
	server.AddTool(s, mcp.Tool{Name: "key"}, func(ctx context.Context, _ struct{}) (string, error) {
		return server.HeaderOf(ctx).Get("X-Key"), nil
	})
	_, err := client.CallTool[string](t.Context(), mcptest.DialHTTP(t, s), "key", nil)
	must.CheckEqual(t, fmt.Sprint(err), "tools/call: send your key in the header X-Key (code -32602)")
	c := mcptest.DialHTTP(t, s, func(d *client.Dialer) { d.Header = http.Header{"X-Key": {"of ada"}} })
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "key", nil))(t), "of ada")
}

// signed adds a line to the results of tools. Results may be shared between calls, so it changes a copy.
func signed(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		result, err := next(ctx, c)
		if r, ok := result.(*mcp.CallToolResult); ok && err == nil {
			changed := *r
			changed.Content = append(slices.Clone(r.Content), mcp.Text("(from the archive)"))
			return &changed, nil
		}
		return result, err
	}
}

func newArchive(logger *slog.Logger) *server.Server {
	s := &server.Server{Name: "archive", Middleware: []call.Middleware{ // the first one is the outermost
		call.LogCalls(logger),
		call.LimitRate(call.RateLimit{PerSecond: 10, Burst: 20, Methods: []string{mcp.MethodCallTool}}),
		audited(logger),
		signed,
	}}
	server.AddTool(s, mcp.Tool{Name: "find"}, answers("one letter"))
	server.AddTool(s, mcp.Tool{Name: "reset"}, answers("done"))
	return s
}

func TestMiddlewareRejectsAndChanges(t *testing.T) {
	c := mcptest.Dial(t, newArchive(slog.New(slog.DiscardHandler)))
	result := must.Get(c.CallTool(t.Context(), "find", nil))(t)
	must.CheckEqual(t, len(result.Content), 2)
	_, err := client.CallTool[string](t.Context(), c, "reset", nil)
	must.CheckEqual(t, err.Error(), "tools/call: reset is out of order (code -32602)")
	for range 30 {
		_, err = c.CallTool(t.Context(), "find", nil)
	}
	must.CheckContains(t, err.Error(), "too many calls")
}
