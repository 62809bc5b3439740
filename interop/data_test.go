//go:build integration

package interop

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// useData reads their resources, makes their prompt and completes what can be completed.
func useData(t *testing.T, p *peer) {
	var uris []string
	for resource, err := range p.Resources(t.Context()) { // in two pages
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, resource.URI)
	}
	if !slices.Equal(uris, []string{"test://text", "test://blob", "test://watched"}) {
		t.Errorf("resources: %v", uris)
	}
	var templates []string
	for template, err := range p.ResourceTemplates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, template.URITemplate)
	}
	if !slices.Equal(templates, []string{"test://books/{isbn}"}) {
		t.Errorf("templates: %v", templates)
	}
	for uri, want := range map[string]mcp.ResourceContents{
		"test://text":       {URI: "test://text", MimeType: "text/plain", Text: "Grüße"},
		"test://blob":       {URI: "test://blob", MimeType: "application/octet-stream", Blob: []byte{0, 1, 254, 255}},
		"test://books/9780": {URI: "test://books/9780", MimeType: "text/plain", Text: "book 9780"},
	} {
		read, err := p.ReadResource(t.Context(), uri)
		if err != nil || len(read.Contents) != 1 {
			t.Errorf("%s: %+v, %v", uri, read, err)
			continue
		}
		if got := read.Contents[0]; got.URI != want.URI || got.MimeType != want.MimeType || got.Text != want.Text || !bytes.Equal(got.Blob, want.Blob) {
			t.Errorf("%s: %+v, want %+v", uri, got, want)
		}
	}
	_, err := p.ReadResource(t.Context(), "test://nothing")
	if p.Server().Info.Name == "interop-v1-server" {
		// It answers -32602, which means invalid parameters in its revision: 2025-11-25, server/resources, Error
		// Handling, has -32002 for this. The second generation says so too, with the URI by which it is recognized.
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("a resource that is not there: %v", err)
		}
	} else if !errors.Is(err, client.ErrResourceNotFound) {
		t.Errorf("a resource that is not there: %v", err)
	}

	prompt, err := p.GetPrompt(t.Context(), "greet", map[string]string{"name": "Ada", "mood": "calm"})
	if err != nil || len(prompt.Messages) != 3 {
		t.Fatalf("prompt: %+v, %v", prompt, err)
	}
	if said, ok := prompt.Messages[0].Content.(*mcp.TextContent); !ok || said.Text != "Greet Ada, calm." {
		t.Errorf("prompt: %+v", prompt.Messages[0].Content)
	}
	if image, ok := prompt.Messages[1].Content.(*mcp.ImageContent); !ok || !bytes.Equal(image.Data, []byte("\x89PNG")) {
		t.Errorf("prompt: %+v", prompt.Messages[1].Content)
	}
	if shown, ok := prompt.Messages[2].Content.(*mcp.EmbeddedResource); !ok || shown.Resource.Text != "Grüße" {
		t.Errorf("prompt: %+v", prompt.Messages[2].Content)
	}
	if _, err := p.GetPrompt(t.Context(), "greet", nil); err == nil {
		t.Error("a prompt could be made without its argument")
	}

	mood := mcp.CompleteReference{Type: mcp.RefPrompt, Name: "greet"}
	isbn := mcp.CompleteReference{Type: mcp.RefResource, URI: "test://books/{isbn}"}
	for _, tt := range []struct {
		params mcp.CompleteParams
		want   []string
	}{
		{mcp.CompleteParams{Ref: mood, Argument: mcp.CompleteArgument{Name: "mood", Value: "c"}}, []string{"calm", "cheerful", "curious"}},
		{mcp.CompleteParams{
			Ref: mood, Argument: mcp.CompleteArgument{Name: "mood", Value: "cu"},
			Context: &mcp.CompleteContext{Arguments: map[string]string{"name": "Ada"}},
		}, []string{"curious Ada"}},
		{mcp.CompleteParams{Ref: isbn, Argument: mcp.CompleteArgument{Name: "isbn", Value: "97802"}}, []string{"9780201633610", "9780262033848"}},
	} {
		if got, err := p.Complete(t.Context(), tt.params); err != nil || !slices.Equal(got.Values, tt.want) {
			t.Errorf("completions of %s: %+v, %v, want %v", tt.params.Argument.Value, got, err, tt.want)
		}
	}
}
