package mcptest_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/server"
)

// Rule Y1: the rate of tool calls is limited for each caller by default. This test sets a lower
// limit.
func TestRateOfToolCallsIsLimited(t *testing.T) {
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
		var rejected *jsonrpc.Error
		if !errors.As(err, &rejected) || !strings.Contains(rejected.Message, "too many calls") || rejected.Code != jsonrpc.CodeInternalError {
			t.Errorf("the third call: %v", err)
		}
		for _, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Errorf("tools/list must not be limited: %v", err)
			}
		}
	})
}

func TestAnonymousSessionsHaveSeparateLimits(t *testing.T) {
	s := newServer()
	s.Limits = server.Limits{CallsPerSecond: 1e-6, CallBurst: 1}
	url := rawEndpoint(t, s)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"everything"}}`
	for range 3 {
		got := wiretest.Text(t, wiretest.Do(t, http.MethodPost, url, call, wiretest.Session(t, url, "2025-11-25")...))
		if !strings.Contains(got, `"result"`) {
			t.Errorf("the first call of a session: %s", got)
		}
	}
}
