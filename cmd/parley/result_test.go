package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestRenderDescribesContent(t *testing.T) {
	var c contentWriter
	c.saved = savedFiles{}
	picture := mcp.Image(make([]byte, 1), "image/gif")
	c.saved[picture] = "dir/picture.gif"
	c.result(&mcp.CallToolResult{
		Content: []mcp.Content{
			mcp.Text("a text"),
			mcp.Text("a text with a newline\n"),
			mcp.Image(make([]byte, 1536), "image/png"),
			mcp.Audio(make([]byte, 3<<20), "audio/\x1bwav"),
			&mcp.ResourceLink{Name: "notes", URI: "file:///notes.txt"},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", MimeType: "text/plain", Text: "the contents"}},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///b", Blob: []byte{0}}},
			picture,
			&mcp.UnknownContent{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram"}`)},
		},
		StructuredContent: json.RawMessage(`{"not":"shown"}`),
	})
	want := `a text
a text with a newline
[image, image/png, 1.5 KiB; save it with --save DIR]
[audio, audio/␛wav, 3.0 MiB; save it with --save DIR]
[resource notes: file:///notes.txt]
[resource file:///a, text/plain]
the contents
[resource file:///b, 1 byte; save it with --save DIR]
[image, image/gif, 1 byte; saved as dir/picture.gif]
[content of the unknown type hologram; use --output json]
`
	if diff := cmp.Diff(want, c.b.String()); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestStructuredContentIsPrintedWithoutOtherContent(t *testing.T) {
	var c contentWriter
	c.result(&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":9007199254740993}`)})
	if got, want := c.b.String(), "{\n  \"n\": 9007199254740993\n}\n"; got != want {
		t.Errorf("the result is %q, want %q", got, want)
	}
}
