package httpserver

import (
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// postModern serves one message of 2026-07-28.
func (s *Server) postModern(w http.ResponseWriter, r *http.Request, x *exchange, class revision.Class) {
	m := &x.message
	from := rpc.Sender{Who: principalOf(r), Source: addressOf(r), Binding: binding(r.Header)}
	switch m.Kind {
	case jsonrpc.Notification: // the core protocol has none over HTTP, but extensions may
		if class.Fault != nil {
			reject(w, http.StatusBadRequest, jsonrpc.ID{}, class.Fault.Wire())
			return
		}
		s.Modern.ServeNotification(r.Context(), from, m, class)
		respondEmpty(w, http.StatusAccepted)
	case jsonrpc.Response:
		rejectInvalid(w, jsonrpc.ID{},
			"the message must be a request or a notification: revision 2026-07-28 has no responses from clients")
	case jsonrpc.Request:
		count, by, above := s.acquire(m.Method, &from)
		if above != nil {
			s.rejectOverload(w, r, http.StatusTooManyRequests, m.ID, above)
			return
		}
		defer count.release(by)
		s.serve(r.Context(), r, x, s.Modern, from, class)
	}
}

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

// Param implements rpc.Binding (2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters).
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
