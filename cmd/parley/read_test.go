package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/jsonrpc"
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

// The program prints what a server sends, and a warning that names what it has left out.
func TestFaultsInContentAreWarnings(t *testing.T) {
	answers := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":[]},"serverInfo":{"name":"s","version":1}}`,
		"tools/list": `{"tools":[{"name":"find","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}},{"name":7}]}`,
		"tools/call": `{"content":["first \ud83d",7]}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(body, jsonrpc.Limits{})
		switch result, ok := answers[m.Method]; {
		case err != nil || m.Kind != jsonrpc.Request:
			w.WriteHeader(http.StatusAccepted)
		case ok:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no"), false))
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	printed, err := run(t, "call", s.URL, "find")
	if err != nil || !strings.HasSuffix(printed, "\nfirst \ufffd\n") {
		t.Errorf("%q, %v", printed, err)
	}
	for _, part := range []string{"part=serverInfo.version", "part=tools[0](find).annotations.readOnlyHint", "part=tools[1]", "part=content[1]"} {
		if !strings.Contains(printed, part+",") {
			t.Errorf("the warnings do not name %s:\n%s", part, printed)
		}
	}
}
