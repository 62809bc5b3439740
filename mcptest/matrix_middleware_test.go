package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// A client's middleware receives every request and its result, can add _meta that the
// server's middleware receives, and can send a request again.
func TestClientMiddlewareWrapsRequests(t *testing.T) {
	const traceParent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	var mu sync.Mutex
	arrived := make(map[string]string) // the traceparent, by method
	newServer := func() *server.Server {
		s := newServer()
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				var meta mcp.Meta
				if raw, ok := c.Params().Get("_meta"); ok {
					_ = json.Unmarshal(raw, &meta)
				}
				mu.Lock()
				arrived[c.Method()] = string(meta[mcp.MetaTraceParent])
				mu.Unlock()
				if err := c.SetMeta(mcp.MetaTraceParent, traceParent); err == nil {
					t.Error("SetMeta of a call that is served returns nil")
				}
				return next(ctx, c)
			}
		}}
		return s
	}
	typed := map[string]any{
		mcp.MethodInitialize: new(mcp.InitializeResult), mcp.MethodDiscover: new(mcp.DiscoverResult), mcp.MethodCallTool: new(mcp.CallToolResult),
		mcp.MethodListTools: new(mcp.ListToolsResult),
	}
	var seen []string
	middleware := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if err := c.SetMeta(mcp.MetaTraceParent, traceParent); err != nil {
				t.Error(err)
			}
			if err := c.SetMeta(mcp.MetaProtocolVersion, "2000-01-01"); !errors.Is(err, mcp.ErrMetaKey) {
				t.Errorf("SetMeta of a reserved key: %v", err)
			}
			result, err := next(ctx, c)
			if err == nil && c.Method() == mcp.MethodCallTool {
				result, err = next(ctx, c)
			}
			mu.Lock()
			defer mu.Unlock()
			name, _ := c.Params().Get("name")
			seen = append(seen, c.Method()+string(name)+string(c.Revision()))
			if want, known := typed[c.Method()]; err == nil && (!known || reflect.TypeOf(result) != reflect.TypeOf(want)) {
				t.Errorf("%s: the result is a %T", c.Method(), result)
			}
			return result, err
		}
	}
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "hello"}); err != nil || text != "hello" {
			t.Errorf("%q, %v", text, err)
		}
		mu.Lock()
		defer mu.Unlock()
		opening := mcp.MethodDiscover
		if !c.Revision().Modern() {
			opening = mcp.MethodInitialize
		}
		for _, want := range []string{opening + string(c.Revision()), mcp.MethodCallTool + `"echo"` + string(c.Revision())} {
			if !slices.Contains(seen, want) {
				t.Errorf("the middleware has received %q, want %s", seen, want)
			}
		}
		if got := arrived[mcp.MethodCallTool]; got != `"`+traceParent+`"` {
			t.Errorf("the server has received the traceparent %s", got)
		}
		seen = nil
		clear(arrived)
	}, func(d *client.Dialer) { d.Middleware = []call.Middleware{middleware} })
}

// Middleware may return a result of package mcp without sending the request.
func TestClientMiddlewareCanReturnResult(t *testing.T) {
	answer := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			switch c.Method() {
			case mcp.MethodCallTool:
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("from middleware")}}, nil
			case mcp.MethodReadResource:
				return nil, nil
			}
			return next(ctx, c)
		}
	}
	c := mcptest.Dial(t, newServer(), func(d *client.Dialer) { d.Middleware = []call.Middleware{answer} })
	if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "from server"}); err != nil || text != "from middleware" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := c.ReadResource(t.Context(), "file:///any"); err == nil {
		t.Error("a nil result is accepted")
	}
}
