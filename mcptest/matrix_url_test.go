package mcptest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// In a session the handler waits until the user is done, or with URLRequired rejects the call
// until then. In 2026-07-28 the client sends the call again.
func TestURLElicitationInEveryRevision(t *testing.T) {
	for name, options := range map[string][]server.AskOption{"waiting": nil, "rejecting": {server.URLRequired()}} {
		t.Run(name, func(t *testing.T) {
			var paid atomic.Bool
			newShop := func() *server.Server {
				paid.Store(false)
				s := newServer()
				server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
					err := server.ElicitURL(ctx, "https://pay.example/bill?id=1", "Pay the bill",
						func(context.Context) (bool, error) { return paid.Load(), nil }, options...)
					if errors.Is(err, server.ErrUnsupported) {
						return "Pay in cash", nil
					}
					return "Thank you", err
				})
				return s
			}
			everywhere(t, newShop, func(t *testing.T, c *client.Client) {
				want := "Thank you"
				if c.Revision() < mcp.V20251125 {
					want = "Pay in cash"
				}
				if text, err := client.CallTool[string](t.Context(), c, "pay", nil); err != nil || text != want {
					t.Errorf("%q, %v, want %q", text, err, want)
				}
				if c.Revision() == mcp.V20251125 {
					await(t, mcp.NotificationElicitationComplete, false)
				}
			}, func(d *client.Dialer) {
				d.ElicitURL = func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					if !strings.HasPrefix(params.URL, "https://pay.example/") {
						t.Errorf("the URL is %s", params.URL)
					}
					paid.Store(true)
					return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
				}
			})
		})
	}
}
