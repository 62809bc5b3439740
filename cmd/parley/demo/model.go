//lint:file-ignore SA1019 What is deprecated still has to work.

package demo

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addModel offers what asks for things that a client has and its user need not fill in.
func addModel(s *server.Server) {
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "summarize", Title: "Summarize", Description: "Have the client's own model sum up a text", Annotations: readOnly}, summarize)
	server.AddTool(s, mcp.Tool{Name: "workspace", Title: "Workspace", Description: "List the directories that the client lets servers work in", Annotations: readOnly}, workspace)
}

func summarize(ctx context.Context, in struct {
	Text string `json:"text" minLength:"1" maxLength:"10000"`
}) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		SystemPrompt: "Sum up what the user gives you in one sentence.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.Text)}}},
		MaxTokens:    200,
	})
	if err != nil {
		return unanswered(err, "There is no summary", "the client has no model for servers")
	}
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the model has answered without words")
}

func workspace(ctx context.Context, _ struct{}) (string, error) {
	roots, err := server.Roots(ctx)
	if err != nil {
		return unanswered(err, "Nothing is known of directories", "the client has not named any directories, as parley does with --root")
	}
	var lines []string
	for _, root := range roots {
		lines = append(lines, strings.TrimSpace(root.Name+" "+root.URI))
	}
	return strings.Join(append(lines, "That is all."), "\n"), nil
}
