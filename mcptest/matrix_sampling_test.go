//lint:file-ignore SA1019 deprecated features must still work

package mcptest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// conversing returns a server with a tool that samples from a model with tools. On request
// its conversation has a tool use without a result.
func conversing() *server.Server {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "forecast"}, func(ctx context.Context, in struct {
		Broken bool `json:"broken,omitempty"`
	}) (string, error) {
		params := mcp.CreateMessageParams{
			MaxTokens: 10,
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("Is it hot?")}}},
			Tools:     []mcp.Tool{{Name: "weather", InputSchema: []byte(`{"type":"object"}`)}},
		}
		sampled, err := server.Sample(ctx, params, server.Key("first"))
		if errors.Is(err, server.ErrUnsupported) {
			return "no idea", nil
		} else if err != nil {
			return "", err
		}
		use := sampled.Content[0].(*mcp.ToolUseContent)
		params.Messages = append(params.Messages, mcp.SamplingMessage{Role: sampled.Role, Content: sampled.Content})
		if !in.Broken {
			params.Messages = append(params.Messages, mcp.SamplingMessage{Role: mcp.RoleUser, Content: []mcp.Content{
				&mcp.ToolResultContent{ToolUseID: use.ID, Content: []mcp.Content{mcp.Text("-3 degrees")}},
			}})
		}
		if sampled, err = server.Sample(ctx, params, server.Key("second")); err != nil {
			return "", err
		}
		return sampled.Content[0].(*mcp.TextContent).Text, nil
	})
	return s
}

// model uses a tool in its first message and replies with text in the second.
func model(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	result := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", StopReason: mcp.StopToolUse,
		Content: []mcp.Content{&mcp.ToolUseContent{ID: "u1", Name: p.Tools[0].Name}}}
	if len(p.Messages) > 1 {
		result.StopReason, result.Content = mcp.StopEndTurn, []mcp.Content{mcp.Text("no")}
	}
	return result, nil
}

// Rule Y6: sampling with tools requires the capability and a result for every tool use.
func TestSamplingWithToolsNeedsACapability(t *testing.T) {
	t.Run("declared", func(t *testing.T) {
		everywhere(t, conversing, func(t *testing.T, c *client.Client) {
			want := "no"
			if c.Revision() < mcp.V20251125 {
				want = "no idea"
			}
			if text, err := client.CallTool[string](t.Context(), c, "forecast", nil); err != nil || text != want {
				t.Errorf("%q, %v, want %q", text, err, want)
			}
			_, err := client.CallTool[string](t.Context(), c, "forecast", map[string]bool{"broken": true})
			if c.Revision() >= mcp.V20251125 && (err == nil || !strings.Contains(err.Error(), "results of its tool uses must follow")) {
				t.Errorf("a tool use without a result: %v", err)
			}
		}, func(d *client.Dialer) { d.Sample, d.SampleTools = model, true })
	})
	t.Run("undeclared", func(t *testing.T) {
		everywhere(t, conversing, func(t *testing.T, c *client.Client) {
			text, err := client.CallTool[string](t.Context(), c, "forecast", nil)
			var reported *jsonrpc.Error
			switch r := c.Revision(); {
			case r < mcp.V20251125:
				if err != nil || text != "no idea" {
					t.Errorf("%q, %v", text, err)
				}
			case r.Modern():
				if !errors.As(err, &reported) || reported.Code != mcp.CodeMissingCapability {
					t.Errorf("got %v", err)
				}
			default:
				if err == nil || !strings.Contains(err.Error(), `"tools"`) {
					t.Errorf("got %v", err)
				}
			}
		}, func(d *client.Dialer) {
			d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				t.Error("the client receives a sampling request")
				return nil, errors.New("no")
			}
		})
	})
}
