package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// The revision 2025-11-25 has CloseStream, but a byte stream does not. The error names both
// possible reasons.
func TestErrorOfCloseStreamNamesTheConnection(t *testing.T) {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "close"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "", server.CloseStream(ctx, time.Second)
	})
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125))
	_, err := client.CallTool[string](t.Context(), c, "close", nil)
	if err == nil || !strings.Contains(err.Error(), "not supported by") || !strings.Contains(err.Error(), "connection") {
		t.Errorf("got %v", err)
	}
}
