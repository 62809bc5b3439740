package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestLazyServerThatIsAddedLaterStartsWhenItIsNeeded(t *testing.T) {
	config := httpConfig(t, "lazy", large())
	config.Lazy = true
	h, s := &host.Host{}, &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, h, s)
	if err := h.SetServers([]host.ServerConfig{config}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for status := range h.Watch(ctx) {
		if status.Name == "lazy" && status.State == host.NotStarted {
			break
		}
	}
	c := mcptest.Dial(t, s)
	for ctx.Err() == nil { // the gateway learns of the server soon
		if got, err := client.CallTool[string](ctx, c, "lazy__small", nil); err == nil && got == "small" {
			return
		}
	}
	t.Error("the server has not started")
}

// The first request that needs what a lazy server has starts it, and has it.
func TestFirstRequestStartsLazyServers(t *testing.T) {
	lists := func(ctx context.Context, c *client.Client) bool {
		for tool := range c.Tools(ctx) {
			if tool.Name == "lazy__small" {
				return true
			}
		}
		return false
	}
	for name, use := range map[string]func(ctx context.Context, c *client.Client) bool{
		"tools/list": lists,
		"tools/call": func(ctx context.Context, c *client.Client) bool {
			got, err := client.CallTool[string](ctx, c, "lazy__small", nil)
			return err == nil && got == "small"
		},
		"resources/read": func(ctx context.Context, c *client.Client) bool {
			_, err := c.ReadResource(ctx, "lib://lazy")
			return err == nil
		},
	} {
		for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			up, other := large(), &server.Server{Name: "other"}
			server.AddStatic(up, mcp.Resource{URI: "lib://lazy", Name: "lazy"}, "text")
			server.AddTool(other, mcp.Tool{Name: "t"}, func(context.Context, none) (string, error) { return "", nil })
			config := httpConfig(t, "lazy", up)
			config.Lazy = true
			h := &host.Host{Servers: []host.ServerConfig{config, httpConfig(t, "other", other)}}
			s := &server.Server{Name: "gateway", Version: "1"}
			gatewaytest.Run(t, h, s)
			state := func() host.State { return h.Status()[0].State }
			first := mcptest.Dial(t, s, mcptest.WithRevision(r))
			if _, err := first.CallTool(t.Context(), "other__t", nil); err != nil {
				t.Error(err)
			}
			if state() != host.NotStarted {
				t.Errorf("%s: the server is %v before it is needed", name, state())
			}
			var users sync.WaitGroup
			for range 10 { // at the same time
				c := mcptest.Dial(t, s, mcptest.WithRevision(r))
				users.Go(func() {
					if !use(t.Context(), c) {
						t.Errorf("%s: the request does not have what the server has", name)
					}
				})
			}
			users.Wait()
			if state() != host.Ready || !lists(t.Context(), first) {
				t.Errorf("%s: the server is %v", name, state())
			}
		}
	}
}
