package mcptest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Y1: the calls of tools are limited, for each caller, without any setting; here by a
// lower limit than the default.
func TestY1CallsOfToolsAreLimited(t *testing.T) {
	limited := func() *server.Server {
		s := newServer()
		s.Limits = server.Limits{CallsPerSecond: 1e-6, CallBurst: 2}
		return s
	}
	everywhere(t, limited, func(t *testing.T, c *client.Client) {
		for range 2 {
			if _, err := c.CallTool(t.Context(), "everything", nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.CallTool(t.Context(), "everything", nil)
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) || !strings.Contains(refused.Message, "too many calls") || refused.Code != jsonrpc.CodeInternalError {
			t.Errorf("the third call: %v", err)
		}
		for _, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Errorf("lists are not limited: %v", err)
			}
		}
	})
}

// Anonymous sessions do not use up what others have.
func TestSessionsAreLimitedOneByOne(t *testing.T) {
	s := newServer()
	s.Limits = server.Limits{CallsPerSecond: 1e-6, CallBurst: 1}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"everything"}}`
	for range 3 {
		say := overHTTP(t, s, mcp.V20251125)
		if got := say(t, call); !strings.Contains(got, `"result"`) {
			t.Errorf("the first call of a session: %s", got)
		}
	}
}
