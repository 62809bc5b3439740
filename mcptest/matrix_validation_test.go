package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Rule V6: arguments are validated before the handler runs, and results afterwards.
func TestArgumentsAndResultsAreValidated(t *testing.T) {
	validating := func() *server.Server {
		s := newServer()
		schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}`)
		err := s.RegisterTool(mcp.Tool{Name: "raw", InputSchema: schema, OutputSchema: schema},
			func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
				var in struct{ N int }
				if err := json.Unmarshal(arguments, &in); err != nil || in.N < 1 {
					t.Errorf("the handler receives %s (%v)", arguments, err)
				}
				if in.N > 1 {
					return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":"many"}`)}, nil
				}
				return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":1}`)}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	everywhere(t, validating, func(t *testing.T, c *client.Client) {
		if result, err := c.CallTool(t.Context(), "raw", json.RawMessage(`{"n":1}`)); err != nil || result.IsError {
			t.Errorf("%+v, %v", result, err)
		}
		for _, arguments := range []string{`{}`, `{"n":0}`, `{"n":"1"}`, `{"n":1.5}`, `{"n":2}`} {
			result, err := c.CallTool(t.Context(), "raw", json.RawMessage(arguments))
			if err == nil && !result.IsError {
				t.Errorf("%s: %+v, want an error", arguments, result)
			}
		}
	})
}

func TestSamplingWithToolsRequiresCapability(t *testing.T) {
	var rejected error
	sampling := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "think"}, func(ctx context.Context, _ struct{}) (string, error) {
			//lint:ignore SA1019 deprecated features must still work
			_, rejected = server.Sample(ctx, mcp.CreateMessageParams{
				MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("?")}}},
				Tools: []mcp.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}},
			})
			return "thought", nil
		})
		return s
	}
	everywhere(t, sampling, func(t *testing.T, c *client.Client) {
		rejected = nil
		if text, err := client.CallTool[string](t.Context(), c, "think", nil); err != nil || text != "thought" {
			t.Fatalf("%q, %v", text, err)
		}
		missing, ok := errors.AsType[*call.CapabilityError](rejected)
		switch {
		case c.Revision() < mcp.V20251125 && !errors.Is(rejected, server.ErrUnsupported):
			t.Errorf("got %v, want ErrUnsupported", rejected)
		case c.Revision() >= mcp.V20251125 && (!ok || missing.Required.Sampling == nil):
			t.Errorf("got %v, want a CapabilityError for sampling", rejected)
		}
	}, answering)
}
