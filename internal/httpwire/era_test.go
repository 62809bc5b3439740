package httpwire

import (
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

// The era of a message is decided once, here. The rows are the shapes that the
// conformance suite and real clients send.
func TestEraIsToldFromHeadersAndBody(t *testing.T) {
	const (
		bare       = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`
		ping       = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		meta       = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		oldMeta    = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}`
		badMeta    = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}}`
		otherMeta  = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`
		notice     = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		response   = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	for _, tc := range []struct {
		what             string
		version, session string // headers; "-" for none
		body             string
		modern           bool
	}{
		{"the handshake", "-", "-", initialize, false},
		{"the handshake, with a version", "2025-11-25", "-", initialize, false},
		{"a session's request", "2025-11-25", "s", bare, false},
		{"a session's request without a version", "-", "s", bare, false},
		{"a session's request with other _meta", "2025-06-18", "s", otherMeta, false},
		{"a session's notification", "2025-11-25", "s", notice, false},
		{"a session's response", "2025-11-25", "s", response, false},
		{"a session's request with a version that there is not", "v999.0.0", "s", bare, false},
		{"nothing at all", "-", "-", bare, false},
		{"an empty version", "", "-", bare, false},
		{"2024-11-05", "2024-11-05", "-", bare, false},

		{"a stateless request", "2026-07-28", "-", meta, true},
		{"a stateless request with a session id, which is ignored", "2026-07-28", "s", meta, true},
		{"the header without _meta", "2026-07-28", "-", bare, true},
		{"the header without _meta, with a session", "2026-07-28", "s", bare, true},
		{"the header with initialize", "2026-07-28", "-", initialize, true},
		{"_meta without the header", "-", "-", meta, true},
		{"_meta against the header", "2025-11-25", "-", meta, true},
		{"_meta against the header, in a session", "2025-11-25", "s", meta, true},
		{"a version that is no string", "-", "-", badMeta, true},
		{"a legacy version in _meta", "2025-11-25", "-", oldMeta, true},
		{"a removed method", "2026-07-28", "-", ping, true},
		{"a version that there is not", "v999.0.0", "-", bare, true},
		{"a version to come", "2027-01-01", "-", initialize, true},
		{"a stateless notification", "2026-07-28", "-", notice, true},
		{"a stateless response", "2026-07-28", "-", response, true},
	} {
		h := make(http.Header)
		if tc.version != "-" {
			h.Set("MCP-Protocol-Version", tc.version)
		}
		if tc.session != "-" {
			h.Set("MCP-Session-Id", tc.session)
		}
		m, err := jsonrpc.Parse([]byte(tc.body), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := isModern(h, &m); got != tc.modern {
			t.Errorf("%s: modern %v", tc.what, got)
		}
	}
}
