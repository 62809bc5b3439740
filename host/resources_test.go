package host_test

import (
	"context"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func TestResourcesAndPromptsCanBeListedAndUsed(t *testing.T) {
	s := newServer("library")
	server.AddStatic(s, mcp.Resource{URI: "lib://guide", Name: "guide"}, "the guide")
	server.AddPrompt(s, mcp.Prompt{Name: "review"}, func(_ context.Context, in struct {
		Tone string `json:"tone" enum:"plain,witty"`
	}) (string, error) {
		return "a " + in.Tone + " review", nil
	})
	h := start(t, &host.Host{Servers: []host.ServerConfig{configOf(t, s, "library")}})
	status := await(t, h, "library", isReady)
	if len(status.Tools) != 2 || len(status.Resources) != 1 || len(status.Templates) != 0 || len(status.Prompts) != 1 {
		t.Errorf("status: %+v", status)
	}
	if p := status.Prompts[0]; p.Name != "library__review" || p.Server != "library" || p.Definition.Name != "review" {
		t.Errorf("prompt: %+v", p)
	}
	resource, err := h.ReadResource(t.Context(), "library", "lib://guide")
	if err != nil || resource.Contents[0].Text != "the guide" {
		t.Errorf("ReadResource: %+v, %v", resource, err)
	}
	prompt, err := h.GetPrompt(t.Context(), "library", "review", map[string]string{"tone": "plain"})
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("GetPrompt: %+v, %v", prompt, err)
	}
	completion, err := h.Complete(t.Context(), "library", mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"},
		Argument: mcp.CompleteArgument{Name: "tone", Value: "wi"},
	})
	if err != nil || !slices.Equal(completion.Values, []string{"witty"}) {
		t.Errorf("Complete: %+v, %v", completion, err)
	}
}
