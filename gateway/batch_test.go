//lint:file-ignore SA1019 deprecated features must still work

package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// Input requests that a server of 2026-07-28 sends in one result arrive in one result, with the keys of the server.
func TestInputRequestsOfOneResultAreForwardedTogether(t *testing.T) {
	type name struct {
		Name string `json:"name"`
	}
	up := &server.Server{Name: "up"}
	server.AddTool(up, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ none) (string, error) {
		var first, second name
		var roots []mcp.Root
		if err := server.Ask(ctx, server.ElicitInto(&first, "First", server.Key("first")), server.ElicitInto(&second, "Second", server.Key("second")),
			server.RootsInto(&roots, server.Key("roots"))); err != nil {
			return "", err
		}
		third, err := server.Elicit[name](ctx, "Third")
		return fmt.Sprintf("%s, %s, %s, %s", first.Name, second.Name, third.Name, roots[0].URI), err
	})
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", up)}}, s)
	var mu sync.Mutex
	var rounds []string
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
		d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(name{strings.ToLower(strings.TrimPrefix(form.Message, asksOf("up")))})
		}
		d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work"}}, nil }
		d.Trace = func(sent bool, message []byte) {
			if text := string(message); !sent && strings.Contains(text, `"input_required"`) {
				mu.Lock()
				defer mu.Unlock()
				rounds = append(rounds, text)
			}
		}
	})
	text, err := client.CallTool[string](t.Context(), c, "up__ask", nil)
	if err != nil || text != "first, second, third, file:///work" {
		t.Errorf("%q, %v", text, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(rounds) != 2 {
		t.Fatalf("%d results with input requests, want 2: %q", len(rounds), rounds)
	}
	for _, key := range []string{`"first":{`, `"second":{`, `"roots":{`} {
		if !strings.Contains(rounds[0], key) {
			t.Errorf("the key %s is not in %s", key, rounds[0])
		}
	}
}
