// Command summary is a server with a tool that uses the client's model (sampling). 2026-07-28
// deprecates sampling; new servers call a model directly.
//
//	go run ./examples/summary
package main

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type document struct {
	Text string `json:"text" doc:"text to summarize" minLength:"1" maxLength:"20000"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "summary", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "summarize", Description: "Summarize a text in one sentence"}, summarize)
	return s
}

func summarize(ctx context.Context, in document) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		SystemPrompt: "Summarize the following text in one sentence.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.Text)}}},
		MaxTokens:    100,
	})
	var missing *call.CapabilityError
	if errors.As(err, &missing) {
		return "", errors.New("the client does not offer a model")
	}
	if err != nil {
		return "", err
	}
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the model returned no text")
}

func main() {
	server.Main(newServer())
}
