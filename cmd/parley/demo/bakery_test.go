package demo_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

func TestBakeAsksTheUserInATask(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		asked := 0
		s := newServer()
		c := mcptest.Dial(t, s, mcptest.WithRevision(r), func(d *client.Dialer) {
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				asked++
				return mcp.AcceptElicit(map[string]any{"icing": "chocolate", "candles": 7})
			}
		})
		task, err := c.StartTool(t.Context(), "bake", map[string]any{"kind": "plum", "milliseconds": 1})
		if err != nil || task.ID() == "" {
			t.Fatalf("%s: task %v, %v", r, task, err)
		}
		result, err := task.Wait(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		text := result.Content[0].(*mcp.TextContent).Text
		if !strings.HasSuffix(text, ": plum, icing: chocolate, candles: 7. This is a demo; nothing was baked.") ||
			asked != 1 {
			t.Errorf("%s: %q after %d questions", r, text, asked)
		}
	}
}
