package main

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/mcp"
)

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
