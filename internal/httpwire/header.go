package httpwire

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Names of the headers that repeat parts of a modern request, in canonical form
// (2026-07-28, basic/transports/streamable-http, Request Metadata).
const (
	headerVersion = revision.HeaderVersion
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"

	// paramPrefix begins the names of the headers that repeat a tool's parameters.
	paramPrefix = "Mcp-Param-"
)

// binding compares the headers of a modern request with its body.
type binding http.Header

var _ modern.Binding = binding(nil)

// Check implements modern.Binding. It compares the method and the name.
func (b binding) Check(m *jsonrpc.Message) *jsonrpc.Error {
	method, fault := b.single(headerMethod)
	if fault != nil {
		return fault
	}
	if method != m.Method {
		return mismatch("the %s header %.100q must equal the method %q", headerMethod, method, m.Method)
	}
	member := revision.NameMember(m.Method)
	if member == "" {
		return nil
	}
	value, fault := b.single(headerName)
	if fault != nil {
		return fault
	}
	name, ok := decodeHeader(value)
	if !ok {
		return malformedHeader(headerName)
	}
	raw, _ := m.Params.Get(member)
	if body := jsonrpc.Unquote(raw); name != body {
		return mismatch("the %s header %.100q must equal params.%s %.100q", headerName, name, member, body)
	}
	return nil
}

// Param implements rpc.Mirror (2026-07-28, basic/transports/streamable-http, Custom
// Headers from Tool Parameters).
func (b binding) Param(name string) (text string, ok bool, err error) {
	header := http.CanonicalHeaderKey(paramPrefix + name)
	if len(b[header]) == 0 {
		return "", false, nil
	}
	value, fault := b.single(header)
	if fault != nil {
		return "", false, fault
	}
	if text, ok = decodeHeader(value); !ok {
		return "", false, malformedHeader(header)
	}
	return text, true, nil
}

// single returns the value of a header that must occur once.
func (b binding) single(name string) (string, *jsonrpc.Error) {
	values := b[name]
	switch len(values) {
	case 0:
		return "", mismatch("the %s header is required", name)
	case 1:
		return strings.Trim(values[0], " \t"), nil
	}
	return "", mismatch("the %.100s header must occur once", name)
}

func malformedHeader(name string) *jsonrpc.Error {
	return mismatch("the %.100s header must be printable ASCII, or UTF-8 text encoded as %sBASE64%s", name, sentinelStart, sentinelEnd)
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: "+format, args...)
}

// The markers around base64 in a header (Value Encoding).
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// encodeHeader encodes text as a header value: printable ASCII unchanged, other text in
// base64 between markers.
func encodeHeader(text string) string {
	if isPlain(text) && !(strings.HasPrefix(text, sentinelStart) && strings.HasSuffix(text, sentinelEnd)) {
		return text
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// decodeHeader reverses encodeHeader. It reports false if value is malformed.
func decodeHeader(value string) (text string, ok bool) {
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
