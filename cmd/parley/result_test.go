package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestResultsAreDescribedInWords(t *testing.T) {
	got := render(&mcp.CallToolResult{
		Content: []mcp.Content{
			mcp.Text("a text"),
			mcp.Text("a text with its own end\n"),
			mcp.Image(make([]byte, 1536), "image/png"),
			mcp.Audio(make([]byte, 3<<20), "audio/\x1bwav"),
			&mcp.ResourceLink{Name: "notes", URI: "file:///notes.txt"},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", MimeType: "text/plain", Text: "what is in it"}},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///b", Blob: []byte{0}}},
			&mcp.UnknownContent{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram"}`)},
		},
		StructuredContent: json.RawMessage(`{"left":"out"}`),
	})
	want := `a text
a text with its own end
[image, image/png, 1.5 KiB: --output json shows it]
[audio, audio/␛wav, 3.0 MiB: --output json shows it]
[resource notes: file:///notes.txt]
[resource file:///a, text/plain]
what is in it
[resource file:///b, 1 byte: --output json shows it]
[content of the type hologram, which parley does not know: --output json shows it]
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestStructuredContentIsPrintedWhereThereIsNothingElse(t *testing.T) {
	got := render(&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":9007199254740993}`)})
	if want := "{\n  \"n\": 9007199254740993\n}\n"; got != want {
		t.Errorf("printed is %q, want %q", got, want)
	}
}

func TestNearestNameIsTheOneMeant(t *testing.T) {
	names := []string{"read_file", "write_file", "files__greet", "Add"}
	for meant, want := range map[string]string{
		"read_fil": "read_file", "raed_file": "read_file", "greet": "files__greet", "add": "Add", "nothing_like_it": "", "": "",
	} {
		if got := nearest(meant, names); got != want {
			t.Errorf("%q is near %q, want %q", meant, got, want)
		}
	}
}
