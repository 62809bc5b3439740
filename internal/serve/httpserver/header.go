package httpserver

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// binding compares the headers of a modern request with its body.
type binding http.Header

var _ rpc.Binding = binding(nil)

// Check implements rpc.Binding. It compares the method and the name.
func (b binding) Check(m *jsonrpc.Message) *jsonrpc.Error {
	method, fault := b.single(httpcodec.HeaderMethod)
	if fault != nil {
		return fault
	}
	if method != m.Method {
		return mismatch("the %s header %.100q must equal the method %q", httpcodec.HeaderMethod, method, m.Method)
	}
	member := revision.NameMember(m.Method)
	if member == "" {
		return nil
	}
	value, fault := b.single(httpcodec.HeaderName)
	if fault != nil {
		return fault
	}
	name, ok := httpcodec.DecodeHeader(value)
	if !ok {
		return malformedHeader(httpcodec.HeaderName)
	}
	raw, _ := m.Params.Get(member)
	if body := jsonrpc.Unquote(raw); name != body {
		return mismatch("the %s header %.100q must equal params.%s %.100q", httpcodec.HeaderName, name, member, body)
	}
	return nil
}

// Param implements rpc.Mirror (2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters).
func (b binding) Param(name string) (text string, ok bool, err error) {
	header := http.CanonicalHeaderKey(httpcodec.ParamPrefix + name)
	if len(b[header]) == 0 {
		return "", false, nil
	}
	value, fault := b.single(header)
	if fault != nil {
		return "", false, fault
	}
	if text, ok = httpcodec.DecodeHeader(value); !ok {
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
	return mismatch("the %.100s header must be printable ASCII, or UTF-8 text encoded as =?base64?BASE64?=", name)
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: "+format, args...)
}

// isUnencoded reports whether the values of a Content-Encoding header are empty or name no coding but identity.
func isUnencoded(codings []string) bool {
	for _, v := range codings {
		for coding := range strings.SplitSeq(v, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
	return true
}

// accepted says which media types the Accept header of a request allows, by name or by range.
type accepted struct{ json, events bool }

// readAccept reads the Accept header. Without it, all media types are allowed.
func readAccept(h http.Header) (a accepted) {
	values := h["Accept"]
	// the form in the specification, which most clients send
	if len(values) == 0 || values[0] == httpcodec.AcceptBoth[0] {
		return accepted{true, true}
	}
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			kind, params, _ := strings.Cut(part, ";")
			if isZeroQuality(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "application/json", "application/*":
				a.json = true
			case "text/event-stream", "text/*":
				a.events = true
			case "*/*":
				return accepted{true, true}
			}
		}
	}
	return a
}

// isZeroQuality reports whether the parameters of a media range include a quality of 0,
// which excludes the range (RFC 9110, section 12.4.2).
func isZeroQuality(params string) bool {
	if params == "" {
		return false
	}
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}
