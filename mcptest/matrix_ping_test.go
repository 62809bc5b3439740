package mcptest_test

import (
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Servers ask on every session whether its client is there, in the revisions that have
// such a request, and clients answer.
func TestServersAskWhetherTheirClientIsThere(t *testing.T) {
	asking := func() *server.Server {
		s := newServer()
		s.KeepAlive = time.Millisecond
		return s
	}
	everywhere(t, asking, func(t *testing.T, c *client.Client) {
		if !c.Revision().Modern() {
			await(t, mcp.MethodPing, false)
		}
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "alive"}); err != nil || text != "alive" {
			t.Errorf("the call after: %q, %v", text, err)
		}
	})
}
