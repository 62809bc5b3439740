package main

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// TestPolicy calls a tool that the policy allows, and one that a user must approve, of whom this client has none.
func TestPolicy(t *testing.T) {
	demo := &server.Server{Name: "demo"}
	for _, name := range []string{"greet", "wipe"} {
		server.AddTool(demo, mcp.Tool{Name: name},
			func(context.Context, struct{}) (string, error) { return name + " was called", nil })
	}
	behind := httptest.NewServer(demo)
	defer behind.Close()

	g, s, err := newGateway([]host.ServerConfig{{Name: "demo", Target: client.URL(behind.URL)}})
	if err != nil {
		t.Fatal(err)
	}
	err = g.Serve(t.Context(), func(ctx context.Context) error {
		if err := g.WaitReady(ctx); err != nil {
			return err
		}
		c := mcptest.Dial(t, s)
		if text, err := client.CallTool[string](ctx, c, "demo__greet", nil); err != nil || text != "greet was called" {
			t.Errorf("demo__greet: %q, %v", text, err)
		}
		if text, err := client.CallTool[string](ctx, c, "demo__wipe", nil); err == nil {
			t.Errorf("demo__wipe was allowed: %q", text)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
