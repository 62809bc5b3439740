//lint:file-ignore SA1019 sampling still has to be shown

// Command summary has a tool that lets the client's model do the thinking. 2026-07-28
// deprecates that: a new server calls a model of its own.
package main

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type document struct {
	Text string `json:"text" doc:"what to sum up" minLength:"1" maxLength:"20000"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "summary", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "summarize", Description: "Sum up a text in one sentence"}, summarize)
	return s
}

func summarize(ctx context.Context, in document) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		SystemPrompt: "Sum up what follows in one sentence.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.Text)}}},
		MaxTokens:    100,
	})
	var missing *call.CapabilityError
	if errors.As(err, &missing) {
		return "", errors.New("this client has no model for its servers")
	}
	if err != nil {
		return "", err
	}
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the model has answered without words")
}

func main() {
	server.Main(newServer())
}
