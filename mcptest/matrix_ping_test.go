package mcptest_test

import (
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The server pings the client in the revisions that have ping, and the client responds.
func TestServerPingsClient(t *testing.T) {
	pinging := func() *server.Server {
		s := newServer()
		s.KeepAlive = time.Millisecond
		return s
	}
	everywhere(t, pinging, func(t *testing.T, c *client.Client) {
		if !c.Revision().Modern() {
			await(t, mcp.MethodPing, false)
		}
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "alive"}); err != nil || text != "alive" {
			t.Errorf("the next call: %q, %v", text, err)
		}
	})
}
