package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/mcp"
)

func TestLogMessagesAreLines(t *testing.T) {
	for data, want := range map[string]string{
		`"plain\u001b[2J\ntext"`:                           "server: info: disk: plain␛[2J text",
		`{"message":"full","percent":93,"machine":"carl"}`: "server: info: disk: full: percent=93, machine=carl",
		`{"message":"full"}`:                               "server: info: disk: full",
		`{"percent":93}`:                                   `server: info: disk: {"percent":93}`,
		`[1,2]`:                                            "server: info: disk: [1,2]",
		`null`:                                             "server: info: disk:",
	} {
		if got := logLine(mcp.LoggingMessageParams{Level: mcp.LevelInfo, Logger: "disk", Data: json.RawMessage(data)}); got != want {
			t.Errorf("%s becomes %q, want %q", data, got, want)
		}
	}
}

func TestRootsAreFileURIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my project")
	if _, err := rootOf(dir); err == nil || !strings.Contains(err.Error(), "there is no directory") {
		t.Errorf("of a directory that is not there it says %v", err)
	}
	root, err := rootOf(".")
	if err != nil || !strings.HasPrefix(root.URI, "file:///") || root.Name == "." || root.Name == "" {
		t.Errorf("the root is %+v, %v", root, err)
	}
	if _, err := rootOf("session_test.go"); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("of a file it says %v", err)
	}
}

func TestMessagesStandBelowTheirRoles(t *testing.T) {
	got := renderMessages([]mcp.PromptMessage{
		{Role: mcp.RoleUser, Content: mcp.Text("a question\n")},
		{Role: mcp.RoleAssistant, Content: mcp.Text("an answer")},
		{Role: mcp.RoleUser, Content: mcp.Image(make([]byte, 2), "image/png")},
	})
	want := "user:\na question\n\nassistant:\nan answer\n\nuser:\n[image, image/png, 2 bytes: --output json shows it]\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

func TestContentsArePrintedByteForByte(t *testing.T) {
	for _, c := range []struct {
		contents []mcp.ResourceContents
		want     string
	}{
		{[]mcp.ResourceContents{{URI: "a:b", Text: "no end \x1b"}}, "no end \x1b"},
		{[]mcp.ResourceContents{{URI: "a:b", Blob: []byte{0, 255, '\n'}}}, "\x00\xff\n"},
		{[]mcp.ResourceContents{{URI: "a:b", Blob: []byte{}}}, ""},
		{[]mcp.ResourceContents{{URI: "a:b", Text: "x"}, {URI: "a:c", MimeType: "image/png", Blob: []byte{0}}},
			"[resource a:b]\nx\n[resource a:c, image/png, 1 byte: --output json shows it]\n"},
	} {
		var b strings.Builder
		if err := printContents(&b, c.contents); err != nil || b.String() != c.want {
			t.Errorf("printed is %q, %v, want %q", b.String(), err, c.want)
		}
	}
}
