package calling

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/mcp"
)

func TestMessagesFollowTheirRoles(t *testing.T) {
	var c contentWriter
	c.messages([]mcp.PromptMessage{
		{Role: mcp.RoleUser, Content: mcp.Text("a question\n")},
		{Role: mcp.RoleAssistant, Content: mcp.Text("an answer")},
		{Role: mcp.RoleUser, Content: mcp.Image(make([]byte, 2), "image/png")},
	})
	want := "user:\na question\n\nassistant:\nan answer\n\nuser:\n[image, image/png, 2 bytes; save it with --save " +
		"DIR]\n"
	if diff := cmp.Diff(want, c.b.String()); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestTextEndsWithANewlineAndOtherContentsAreUnchanged(t *testing.T) {
	for _, c := range []struct {
		contents []mcp.ResourceContents
		want     string
	}{
		{[]mcp.ResourceContents{{URI: "a:b", Text: "no end \x1b"}}, "no end \x1b\n"},
		{[]mcp.ResourceContents{{URI: "a:b", Text: "an end\n"}}, "an end\n"},
		{[]mcp.ResourceContents{{URI: "a:b"}}, ""},
		{[]mcp.ResourceContents{{URI: "a:b", Blob: []byte{0, 255, '\n'}}}, "\x00\xff\n"},
		{[]mcp.ResourceContents{{URI: "a:b", Blob: []byte{}}}, ""},
		{[]mcp.ResourceContents{{URI: "a:b", Text: "x"}, {URI: "a:c", MimeType: "image/png", Blob: []byte{0}}},
			"[resource a:b]\nx\n[resource a:c, image/png, 1 byte; save it with --save DIR]\n"},
	} {
		var b strings.Builder
		if err := printContents(&b, c.contents, nil, picture.Off); err != nil || b.String() != c.want {
			t.Errorf("printed %q, %v, want %q", b.String(), err, c.want)
		}
	}
}

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
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", MimeType: "text/plain",
				Text: "the contents"}},
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
