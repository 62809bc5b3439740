package server_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestSessionsAreActiveDuringRequests(t *testing.T) {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "count"}, func(context.Context, struct{}) (int, error) { return s.ActiveSessions(), nil })
	if n := s.ActiveSessions(); n != 0 {
		t.Errorf("%d sessions are active before the first", n)
	}
	endpointOf(t, s).session("2025-11-25")
	if n := s.ActiveSessions(); n != 0 {
		t.Errorf("%d sessions are active without a request", n)
	}
	for range 2 {
		c := mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20251125))
		result, err := c.CallTool(t.Context(), "count", nil)
		if err != nil || result.Content[0].(*mcp.TextContent).Text == "0" {
			t.Errorf("during a call: %+v, %v", result, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.ActiveSessions(); n != 0 {
		t.Errorf("%d sessions are active after the last", n)
	}
}
