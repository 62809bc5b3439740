package httpcodec

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/internal/revision"
)

// Names of headers in canonical form. The method, the name and the parameters repeat parts of a modern request
// (2026-07-28, basic/transports/streamable-http, Request Metadata).
const (
	HeaderVersion     = revision.HeaderVersion
	HeaderSession     = "Mcp-Session-Id"
	HeaderLastEventID = "Last-Event-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	ParamPrefix       = "Mcp-Param-" // prefix of the headers that repeat a tool's parameters
)

// Values of the headers Accept and Content-Type. They must not be changed.
var (
	AcceptBoth      = []string{"application/json, text/event-stream"}
	JSONType        = []string{"application/json"}
	EventStreamType = []string{"text/event-stream"}
)

// First returns the first value of a header, or "".
func First(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// The markers around base64 in a header (Value Encoding).
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// EncodeHeader encodes text as a header value: printable ASCII unchanged, other text in base64 between markers.
func EncodeHeader(text string) string {
	if isPlain(text) && !(strings.HasPrefix(text, sentinelStart) && strings.HasSuffix(text, sentinelEnd)) {
		return text
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// DecodeHeader reverses EncodeHeader. It reports false if value is malformed.
func DecodeHeader(value string) (text string, ok bool) {
	if !isPlain(value) {
		return "", false
	}
	encoded, ok := strings.CutPrefix(value, sentinelStart)
	if ok {
		encoded, ok = strings.CutSuffix(encoded, sentinelEnd) // the markers must not overlap
	}
	if !ok {
		return value, true
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return string(decoded), err == nil
}

// isPlain reports whether a header can carry s unchanged: printable ASCII, without white
// space at its ends (RFC 9110, section 5.5).
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 0x20 && c != '\t') || c > 0x7E {
			return false
		}
	}
	return strings.Trim(s, " \t") == s
}
