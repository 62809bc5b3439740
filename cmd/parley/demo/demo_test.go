package demo_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
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
			if err != nil {
				t.Fatal(err)
			}
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
		if tools != len(arguments) {
			t.Errorf("%d tools are listed, want %d", tools, len(arguments))
		}
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

func TestPictureReturnsAPNG(t *testing.T) {
	result, err := mcptest.Dial(t, newServer()).CallTool(t.Context(), "picture", map[string]int{"size": 3})
	if err != nil {
		t.Fatal(err)
	}
	image, ok := result.Content[1].(*mcp.ImageContent)
	if !ok || image.MimeType != "image/png" || !strings.HasPrefix(string(image.Data), "\x89PNG") {
		t.Errorf("content is %+v, want a PNG image", result.Content[1])
	}
}
