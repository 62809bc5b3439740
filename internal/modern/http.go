package modern

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Names of the headers that mirror parts of a request, in canonical form
// (2026-07-28, basic/transports/streamable-http, Request Metadata).
const (
	HeaderMethod = "Mcp-Method"
	HeaderName   = "Mcp-Name"
)

// checkHeaders holds the method and name headers against the body.
func checkHeaders(h http.Header, m *jsonrpc.Message) *jsonrpc.Error {
	method, err := single(h, HeaderMethod)
	if err != nil {
		return err
	}
	if method != m.Method {
		return mismatch("%s header %.100q does not match the method %q", HeaderMethod, method, m.Method)
	}
	member := NameMember(m.Method)
	if member == "" {
		return nil
	}
	header, err := single(h, HeaderName)
	if err != nil {
		return err
	}
	name, ok := DecodeHeader(header)
	if !ok {
		return mismatch("%s header %.100q is malformed", HeaderName, header)
	}
	raw, _ := m.Params.Get(member)
	if body := jsonrpc.Unquote(raw); name != body {
		return mismatch("%s header %.100q does not match params.%s %.100q", HeaderName, name, member, body)
	}
	return nil
}

// NameMember returns the member of a method's params that Mcp-Name mirrors, or "".
func NameMember(method string) string {
	switch method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		return "name"
	case mcp.MethodReadResource:
		return "uri"
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		return "taskId"
	}
	return ""
}

func single(h http.Header, name string) (string, *jsonrpc.Error) {
	values := h[name]
	switch len(values) {
	case 0:
		return "", mismatch("the %s header is missing", name)
	case 1:
		return strings.Trim(values[0], " \t"), nil
	}
	return "", mismatch("the %s header occurs more than once", name)
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: "+format, args...)
}

const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// EncodeHeader makes a header value of any text: the text itself where it is plain
// ASCII that survives a header, its base64 form between sentinels otherwise
// (Value Encoding).
func EncodeHeader(text string) string {
	if isPlain(text) && !(strings.HasPrefix(text, sentinelStart) && strings.HasSuffix(text, sentinelEnd)) {
		return text
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// DecodeHeader undoes EncodeHeader. It reports false for what no client may send.
func DecodeHeader(value string) (string, bool) {
	if !isPlain(value) {
		return "", false
	}
	encoded, ok := strings.CutPrefix(value, sentinelStart)
	if ok {
		encoded, ok = strings.CutSuffix(encoded, sentinelEnd) // which does not overlap the start
	}
	if !ok {
		return value, true
	}
	text, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return string(text), err == nil
}

// isPlain reports whether a header carries s as it is: visible ASCII, with spaces
// and tabs inside only.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 0x20 && c != '\t') || c > 0x7E {
			return false
		}
	}
	return strings.Trim(s, " \t") == s
}

// HTTPStatus is the status of a response that reports the error with this code.
// An error of the request's own doing, as an unknown tool is, is a fine HTTP
// exchange; what the transport's page names is not.
func HTTPStatus(code int64) int {
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest,
		mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}
