//lint:file-ignore SA1019 Deprecated features are still supported.

package demo_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

// allCapabilities gives a client every capability that a server can ask for.
func allCapabilities(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		if strings.Contains(form.Message, "Who") {
			return mcp.AcceptElicit(map[string]any{"people": 2, "class": "first"})
		}
		return mcp.AcceptElicit(map[string]any{"date": "2027-01-31"})
	}
	d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: []mcp.Content{mcp.Text("It is long.")},
			Model: "test"}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) {
		return []mcp.Root{{URI: "file:///work", Name: "work"}}, nil
	}
}

func TestToolsAskTheClient(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.Latest} { // the revisions with all of these requests
		c := mcptest.Dial(t, newServer(), mcptest.WithRevision(r), allCapabilities)
		for _, test := range []struct {
			tool, arguments, want string
		}{
			{"plan_trip", "Oslo",
				": 2 to Oslo on 2027-01-31, first class, return trip. This is a demo; nothing was booked."},
			{"terms", "", "Thank you for reading the terms."},
			{"summarize", "long text", "It is long."},
			{"workspace", "", "work file:///work\nEnd of the list."},
		} {
			arguments := map[string]string{}
			switch test.tool {
			case "plan_trip":
				arguments["to"] = test.arguments
			case "summarize":
				arguments["text"] = test.arguments
			}
			if got, err := client.CallTool[string](t.Context(), c, test.tool, arguments); err != nil ||
				!strings.HasSuffix(got, test.want) {
				t.Errorf("%s: %s returned %q, %v", r, test.tool, got, err)
			}
		}
	}
}
