package client_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestTextIsNotDecodedOnRequest(t *testing.T) {
	newServer := func() *server.Server {
		s := &server.Server{}
		for name, content := range map[string]mcp.Content{
			"text": mcp.Text("text"), "image": mcp.Image([]byte{1}, "image/png"),
			"note": &mcp.TextContent{Text: "text", Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}}},
		} {
			server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, struct{}) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{content}, StructuredContent: []byte(`{"a":1}`), IsError: true}, nil
			})
		}
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for name, decoded := range map[string]bool{"text": false, "image": false, "note": true} {
			result, err := c.CallTool(t.Context(), name, nil, client.WithUndecodedText())
			if err != nil || (result.Content != nil) != decoded || result.Source == nil || !result.IsError || (string(result.StructuredContent) == `{"a":1}`) != (c.Revision() >= mcp.V20250618) {
				t.Errorf("%s: %+v, %v", name, result, err)
			}
		}
	})
}
