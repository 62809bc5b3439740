package mcptest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// withMiddleware returns a function that makes a server with the middleware.
func withMiddleware(middleware ...call.Middleware) func() *server.Server {
	return func() *server.Server {
		s := newServer()
		s.Middleware = middleware
		server.AddPrompt(s, mcp.Prompt{Name: "open"}, func(context.Context, struct{}) (string, error) { return "o", nil })
		server.AddStatic(s, mcp.Resource{URI: "note://open", Name: "open"}, "o")
		return s
	}
}

func toolNames(t *testing.T, c *client.Client) []string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context(), client.WithRefresh()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func TestServerMiddlewareFiltersLists(t *testing.T) {
	withoutCount := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if list, ok := result.(*mcp.ListToolsResult); ok {
				filtered := *list
				filtered.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(tool mcp.Tool) bool { return tool.Name == "count" })
				return &filtered, err
			}
			return result, err
		}
	}
	everywhere(t, withMiddleware(withoutCount), func(t *testing.T, c *client.Client) {
		for range 2 { // the second list comes from the caches of the server
			names := toolNames(t, c)
			if slices.Contains(names, "count") || !slices.Contains(names, "echo") {
				t.Errorf("tools %q", names)
			}
		}
	})
}

func TestServerMiddlewareSeesEveryMethodWithItsTypedResult(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]string) // the type of the result or the error code, by method
	count := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == mcp.MethodListen { // returns when the subscription ends
				mu.Lock()
				seen[c.Method()] = "begun"
				mu.Unlock()
				return next(ctx, c)
			}
			result, err := next(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			seen[c.Method()] = typeOf(result, err)
			if c.Revision() == "" || c.Peer().Info.Name == "" && c.Method() != mcp.MethodPing {
				t.Errorf("%s: revision %q, client %+v", c.Method(), c.Revision(), c.Peer().Info)
			}
			return result, err
		}
	}
	mcptest.Everywhere(t, withMiddleware(count), func(t *testing.T, c *client.Client) {
		modern := c.Revision().Modern()
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "x"}); err != nil {
			t.Error(err)
		}
		_ = toolNames(t, c)
		for _, err := range c.Prompts(t.Context()) {
			if err != nil {
				t.Error(err)
			}
		}
		var reported *jsonrpc.Error
		if _, err := c.CallExtension(t.Context(), "com.example/unknown", nil); !errors.As(err, &reported) || reported.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("unknown method: %v", err)
		}
		if modern {
			ctx, cancel := context.WithCancel(t.Context())
			for range c.Watch(ctx, client.WatchFilter{Tools: true}) {
				cancel()
			}
			cancel()
		}
		want := map[string]string{
			mcp.MethodCallTool: "*mcp.CallToolResult", mcp.MethodListTools: "*mcp.ListToolsResult", mcp.MethodListPrompts: "*mcp.ListPromptsResult",
			"com.example/unknown": "-32601",
		}
		if modern {
			want[mcp.MethodDiscover], want[mcp.MethodListen] = "*mcp.DiscoverResult", "begun"
		} else {
			want[mcp.MethodInitialize], want[mcp.MethodPing] = "*mcp.InitializeResult", "*mcp.EmptyResult"
		}
		mu.Lock()
		defer mu.Unlock()
		if !maps.Equal(seen, want) {
			t.Errorf("seen %v, want %v", seen, want)
		}
		clear(seen)
	})
}

func typeOf(result any, err error) string {
	var reported *jsonrpc.Error
	if errors.As(err, &reported) {
		return strconv.FormatInt(reported.Code, 10)
	}
	return fmt.Sprintf("%T", result)
}

func TestServerMiddlewareRewritesResults(t *testing.T) {
	rewrite := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			switch r := result.(type) {
			case *mcp.CallToolResult:
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("rewritten " + c.Name())}}, err
			case *mcp.ReadResourceResult:
				return nil, &jsonrpc.Error{Code: mcp.CodeResourceNotFound, Message: "hidden"}
			case *mcp.InitializeResult:
				changed := *r
				changed.Instructions = "rewritten"
				return &changed, err
			case *mcp.DiscoverResult:
				changed := *r
				changed.Instructions = "rewritten"
				return &changed, err
			}
			return result, err
		}
	}
	everywhere(t, withMiddleware(rewrite), func(t *testing.T, c *client.Client) {
		if got := c.Server().Instructions; got != "rewritten" {
			t.Errorf("instructions %q", got)
		}
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "x"}); err != nil || text != "rewritten echo" {
			t.Errorf("%q, %v", text, err)
		}
		var reported *jsonrpc.Error
		if _, err := c.ReadResource(t.Context(), "note://open"); !errors.As(err, &reported) || reported.Message != "hidden" {
			t.Errorf("read: %v", err)
		}
	})
}

// Middleware may change the fields of a result that it received, although the server keeps the
// list and its encoding for many calls: the change is for one call.
func TestServerMiddlewareChangesOneCallsResult(t *testing.T) {
	var calls atomic.Int32
	modify := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			if list, ok := result.(*mcp.ListToolsResult); ok && calls.Add(1)%2 == 1 {
				list.Tools = list.Tools[:1]
			}
			return result, err
		}
	}
	everywhere(t, withMiddleware(modify), func(t *testing.T, c *client.Client) {
		calls.Store(0)
		for i, want := range []func(n int) bool{
			func(n int) bool { return n == 1 },
			func(n int) bool { return n > 1 },
		} {
			n := 0
			for _, err := range c.Tools(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if !want(n) {
				t.Errorf("list %d has %d tools", i+1, n)
			}
		}
	})
}
