package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

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
