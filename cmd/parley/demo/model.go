//lint:file-ignore SA1019 Deprecated features are still supported.

package demo

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addModel adds the tools that use the client's model and roots.
func addModel(s *server.Server) {
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "summarize", Title: "Summarize", Description: "Summarize a text with the client's model", Annotations: readOnly}, summarize)
	server.AddTool(s, mcp.Tool{Name: "workspace", Title: "Workspace", Description: "List the roots of the client", Annotations: readOnly}, workspace)
}

func summarize(ctx context.Context, in struct {
	Text string `json:"text" minLength:"1" maxLength:"10000" doc:"the text to summarize"`
}) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		SystemPrompt: "Summarize the user's text in one sentence.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.Text)}}},
		MaxTokens:    200,
	})
	if err != nil {
		return unanswered(err, "There is no summary", "the client does not offer a model")
	}
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the model returned no text")
}

func workspace(ctx context.Context, _ struct{}) (string, error) {
	roots, err := server.Roots(ctx)
	if err != nil {
		return unanswered(err, "There are no directories", "the client has no roots; parley sets them with --root")
	}
	var lines []string
	for _, root := range roots {
		lines = append(lines, strings.TrimSpace(root.Name+" "+root.URI))
	}
	return strings.Join(append(lines, "End of the list."), "\n"), nil
}
