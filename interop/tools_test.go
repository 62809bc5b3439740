//go:build integration

package interop

import (
	"errors"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// useTools lists and calls their tools.
func useTools(t *testing.T, p *peer) {
	tools := map[string]bool{}
	for tool, err := range p.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = true
	}
	for _, name := range []string{"echo", "add", "count", "fail", "region"} {
		if !tools[name] {
			t.Errorf("tool %q is not listed", name)
		}
	}
	if text, err := client.Call[string](t.Context(), p.Client, "echo", map[string]any{"text": "héllo"}); err != nil || text != "héllo" {
		t.Errorf("echo: %q, %v", text, err)
	}
	added, err := client.Call[struct {
		Sum float64 `json:"sum"`
	}](t.Context(), p.Client, "add", map[string]any{"a": 2, "b": 40})
	if err != nil || added.Sum != 42 {
		t.Errorf("add: %v, %v", added, err)
	}
	var steps []float64
	text, err := client.Call[string](t.Context(), p.Client, "count", map[string]any{"to": 5},
		client.OnProgress(func(p call.Progress) { steps = append(steps, p.Done) }))
	if err != nil || text != "counted to 5" || !slices.Equal(steps, []float64{1, 2, 3, 4, 5}) {
		t.Errorf("count: %q, %v, progress %v", text, err, steps)
	}
	var failed *client.ToolError
	if _, err := client.Call[string](t.Context(), p.Client, "fail", nil); !errors.As(err, &failed) {
		t.Errorf("fail: %v", err)
	}
	if _, err := client.Call[string](t.Context(), p.Client, "no_such_tool", nil); err == nil {
		t.Error("an unknown tool could be called")
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	region := "none"
	if p.Revision() >= mcp.V20260728 && p.transport == "http" {
		region = "eu-north" // 2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters
	}
	if text, err := client.Call[string](t.Context(), p.Client, "region", map[string]string{"region": "eu-north"}); err != nil || text != region {
		t.Errorf("region: %q, %v, want %q", text, err, region)
	}
}
