package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestRenderDescribesContent(t *testing.T) {
	got := render(&mcp.CallToolResult{
		Content: []mcp.Content{
			mcp.Text("a text"),
			mcp.Text("a text with a newline\n"),
			mcp.Image(make([]byte, 1536), "image/png"),
			mcp.Audio(make([]byte, 3<<20), "audio/\x1bwav"),
			&mcp.ResourceLink{Name: "notes", URI: "file:///notes.txt"},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", MimeType: "text/plain", Text: "the contents"}},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///b", Blob: []byte{0}}},
			&mcp.UnknownContent{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram"}`)},
		},
		StructuredContent: json.RawMessage(`{"not":"shown"}`),
	})
	want := `a text
a text with a newline
[image, image/png, 1.5 KiB; use --output json]
[audio, audio/␛wav, 3.0 MiB; use --output json]
[resource notes: file:///notes.txt]
[resource file:///a, text/plain]
the contents
[resource file:///b, 1 byte; use --output json]
[content of the unknown type hologram; use --output json]
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestStructuredContentIsPrintedWithoutOtherContent(t *testing.T) {
	got := render(&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":9007199254740993}`)})
	if want := "{\n  \"n\": 9007199254740993\n}\n"; got != want {
		t.Errorf("render() = %q, want %q", got, want)
	}
}
