package host_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

func TestMiddlewareOfAServerSeesItsRequests(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	record := func(name string) call.Middleware {
		return func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if c.Method() == mcp.MethodCallTool {
					mu.Lock()
					seen = append(seen, name)
					mu.Unlock()
				}
				return next(ctx, c)
			}
		}
	}
	h := &host.Host{
		Servers:    []host.ServerConfig{inMemory(t, "a"), inMemory(t, "b")},
		Dialer:     client.Dialer{Middleware: []call.Middleware{record("all")}},
		Middleware: func(server string) []call.Middleware { return []call.Middleware{record("of " + server)} },
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, name := range []string{"b__who", "a__who"} {
		if _, err := h.Call(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"all", "of b", "all", "of a"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}
