package guide_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

var letterhead = []byte("\x89PNG")

type letter struct {
	City string `json:"city" doc:"where to write to"`
}

func addLetter(s *server.Server) {
	server.AddPrompt(s, mcp.Prompt{Name: "letter", Description: "Write a letter in the style of the house"},
		func(_ context.Context, in letter) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{
				{Role: mcp.RoleUser, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{
					URI: "style://house", MimeType: "text/markdown", Text: "Short sentences."}}},
				{Role: mcp.RoleUser, Content: mcp.Image(letterhead, "image/png")},
				{Role: mcp.RoleAssistant, Content: mcp.Text("I have read the rules. To whom shall I write?")},
				{Role: mcp.RoleUser, Content: mcp.Text("To our customers in " + in.City + ".")},
			}, nil
		},
		server.CompleteFrom("city", "Lima", "Lisbon", "Oslo", "Berlin"))
}

func TestPromptHasSeveralMessages(t *testing.T) {
	s := new(server.Server)
	addLetter(s)
	c := mcptest.Dial(t, s)
	prompt := must.Get(c.GetPrompt(t.Context(), "letter", map[string]string{"city": "Oslo"}))(t)
	must.CheckEqual(t, len(prompt.Messages), 4)
	found := must.Get(c.Complete(t.Context(), mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "letter"},
		Argument: mcp.CompleteArgument{Name: "city", Value: "li"},
	}))(t)
	must.CheckEqual(t, len(found.Values), 3)
}
