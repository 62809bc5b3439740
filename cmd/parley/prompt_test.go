package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestMessagesFollowTheirRoles(t *testing.T) {
	var c contentWriter
	c.messages([]mcp.PromptMessage{
		{Role: mcp.RoleUser, Content: mcp.Text("a question\n")},
		{Role: mcp.RoleAssistant, Content: mcp.Text("an answer")},
		{Role: mcp.RoleUser, Content: mcp.Image(make([]byte, 2), "image/png")},
	})
	want := "user:\na question\n\nassistant:\nan answer\n\nuser:\n[image, image/png, 2 bytes; save it with --save DIR]\n"
	if diff := cmp.Diff(want, c.b.String()); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}
