package demo_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer() *server.Server { return demo.New("1") }

func TestEveryToolReturnsAResultInEveryRevision(t *testing.T) {
	arguments := map[string]string{
		"greet":      `{"name": "Ada", "times": 2}`,
		"add":        `{"a": 1, "b": 2}`,
		"count":      `{"to": 2, "milliseconds": 1}`,
		"now":        `{"zone": "UTC"}`,
		"weather":    `{"city": "Oslo", "unit": "fahrenheit"}`,
		"picture":    `{}`,
		"fail":       `{}`,
		"book_table": `{"restaurant": "Maaemo", "people": 2, "date": "2027-01-31"}`,
		"checkup":    `{}`,
		"souvenir":   `{"city": "Oslo"}`,
		"plan_trip":  `{"to": "Oslo"}`,
		"bake":       `{"kind": "plum", "milliseconds": 1}`,
		"terms":      `{}`,
		"summarize":  `{"text": "long"}`,
		"workspace":  `{}`,
		"note":       `{"text": "hello"}`,
		"shop":       `{"open": false}`,
	}
	fails := map[string]string{
		"fail": "always fails", "plan_trip": "the client cannot ask the user",
		"terms":     "the client cannot ask the user",
		"bake":      "the client cannot ask the user",
		"summarize": "does not offer a model", "workspace": "the client has no roots",
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		tools := 0
		for tool, err := range c.Tools(t.Context()) {
			must.Do(t, err)
			tools++
			result, err := c.CallTool(t.Context(), tool.Name, json.RawMessage(arguments[tool.Name]))
			if err != nil || len(result.Content) == 0 || result.IsError != (fails[tool.Name] != "") {
				t.Errorf("%s: %+v, %v", tool.Name, result, err)
				continue
			}
			if text, ok := result.Content[0].(*mcp.TextContent); ok && !strings.Contains(text.Text, fails[tool.Name]) {
				t.Errorf("%s returned %s", tool.Name, text.Text)
			}
		}
		must.CheckEqual(t, tools, len(arguments), "tools are listed")
	})
}

func TestAddIsExactOrAnError(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	add := func(a, b int64) (int64, error) {
		out, err := client.CallTool[struct {
			Sum int64 `json:"sum"`
		}](t.Context(), c, "add", map[string]int64{"a": a, "b": b})
		return out.Sum, err
	}
	for _, n := range [][3]int64{{1, 2, 3}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, math.MinInt64, -1},
		{1 << 53, 1, 1<<53 + 1}, {-5, 5, 0}} {
		if got, err := add(n[0], n[1]); err != nil || got != n[2] {
			t.Errorf("%d + %d = %d, %v", n[0], n[1], got, err)
		}
	}
	for _, n := range [][2]int64{{math.MaxInt64, 1}, {math.MinInt64, -1}, {math.MaxInt64, math.MaxInt64}} {
		if got, err := add(n[0], n[1]); err == nil || !strings.Contains(err.Error(), "must fit") {
			t.Errorf("%d + %d = %d, %v", n[0], n[1], got, err)
		}
	}
}

func TestUnknownCitiesAreNotFound(t *testing.T) {
	_, err := mcptest.Dial(t, newServer()).ReadResource(t.Context(), "demo://cities/Atlantis")
	must.CheckThat(t, err != nil, "reading Atlantis returned no error")
}

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
			got := must.Get(client.CallTool[string](t.Context(), c, test.tool, arguments))(t)
			must.CheckThat(t, strings.HasSuffix(got, test.want), "%s: %s returned %q", r, test.tool, got)
		}
	}
}

func TestWatchersAreNotifiedOfNotesAndTools(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		begun := 0
		var seen []client.Change
		for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{"demo://notes"}}) {
			must.Do(t, err)
			if !change.Resync {
				if seen = append(seen, change); len(seen) == 2 {
					break
				}
				continue
			}
			if begun++; begun != 2 {
				continue
			}
			must.Check(t, must.Err(c.CallTool(ctx, "note", map[string]string{"text": "one\ntwo"})))
			must.Check(t, must.Err(c.CallTool(ctx, "shop", map[string]bool{"open": true})))
		}
		for _, want := range []client.Change{{Kind: client.ResourceUpdated, URI: "demo://notes"},
			{Kind: client.ToolsChanged}} {
			must.CheckThat(t, slices.Contains(seen, want), "changes %+v, missing %+v", seen, want)
		}
		got := must.Get(c.ReadResource(ctx, "demo://notes"))(t)
		must.CheckEqual(t, got.Contents[0].Text, "- one two\n", got)
		must.CheckContains(t, must.Get(client.CallTool[string](ctx, c, "buy", map[string]string{"thing": "bread"}))(t),
			"bread", "buy returned")
		must.Check(t, must.Err(c.CallTool(ctx, "shop", map[string]bool{"open": false})))
		_, err := c.CallTool(ctx, "buy", map[string]string{"thing": "bread"})
		must.CheckThat(t, err != nil, "buy exists after the shop has closed")
	})
}

func TestNumberOfNotesIsLimited(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	for range 30 {
		must.Do(t, must.Err(c.CallTool(t.Context(), "note", map[string]string{"text": "again"})))
	}
	got := must.Get(c.ReadResource(t.Context(), "demo://notes"))(t)
	must.CheckEqual(t, strings.Count(got.Contents[0].Text, "\n"), 20, got)
}
