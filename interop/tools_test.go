//go:build integration

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// offerTools adds tools, one with a mirrored parameter and one that fails.
func offerTools(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "echo", Description: "Return the text"},
		func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return in.Text, nil
		})
	type sum struct {
		Sum float64 `json:"sum"`
	}
	server.AddTool(s, mcp.Tool{Name: "add", Description: "Add two numbers"},
		func(_ context.Context, in struct {
			A float64 `json:"a"`
			B float64 `json:"b"`
		}) (sum, error) {
			return sum{in.A + in.B}, nil
		})
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Count up, reporting each step"},
		func(ctx context.Context, in struct {
			To int `json:"to" minimum:"1" maximum:"1000"`
		}) (string, error) {
			for i := range in.To {
				if err := server.Progress(ctx, float64(i+1), float64(in.To), fmt.Sprintf("%d of %d", i+1, in.To)); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("counted to %d", in.To), nil
		})
	server.AddTool(s, mcp.Tool{Name: "fail", Description: "Fail"},
		func(context.Context, struct{}) (string, error) { return "", errors.New("failed on purpose") })
	// The server rejects a call whose header differs from the argument, so success proves that the header is right.
	server.AddTool(s, mcp.Tool{Name: "region", Description: "Return the region"},
		func(_ context.Context, in struct {
			Region string `json:"region" mcp-header:"Region"`
		}) (string, error) {
			return in.Region, nil
		})
}

// useTools lists and calls tools.
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
	if text, err := client.CallTool[string](t.Context(), p.Client, "echo", map[string]any{"text": "héllo"}); err != nil || text != "héllo" {
		t.Errorf("echo: %q, %v", text, err)
	}
	added, err := client.CallTool[struct {
		Sum float64 `json:"sum"`
	}](t.Context(), p.Client, "add", map[string]any{"a": 2, "b": 40})
	if err != nil || added.Sum != 42 {
		t.Errorf("add: %v, %v", added, err)
	}
	var steps []float64
	text, err := client.CallTool[string](t.Context(), p.Client, "count", map[string]any{"to": 5},
		client.WithProgress(func(done, _ float64, _ string) { steps = append(steps, done) }))
	if err != nil || text != "counted to 5" || !slices.Equal(steps, []float64{1, 2, 3, 4, 5}) {
		t.Errorf("count: %q, %v, progress %v", text, err, steps)
	}
	var failed *client.ToolError
	if _, err := client.CallTool[string](t.Context(), p.Client, "fail", nil); !errors.As(err, &failed) {
		t.Errorf("fail: %v", err)
	}
	if _, err := client.CallTool[string](t.Context(), p.Client, "no_such_tool", nil); err == nil {
		t.Error("call of an unknown tool: no error")
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	region := "none"
	if p.Revision() >= mcp.V20260728 && p.transport == "http" {
		region = "eu-north" // 2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters
	}
	if text, err := client.CallTool[string](t.Context(), p.Client, "region", map[string]string{"region": "eu-north"}); err != nil || text != region {
		t.Errorf("region: %q, %v, want %q", text, err, region)
	}
}
