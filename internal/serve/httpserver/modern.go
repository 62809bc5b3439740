package httpserver

import (
	"net/http"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// modernStatus returns the HTTP status of a response that reports an error with this code. The transport's page names
// the errors that are faults of the HTTP request; an error of the method itself, such as an unknown tool, is status 200
// (2026-07-28, basic/transports/streamable-http).
func modernStatus(code int64) int {
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest,
		mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}

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
		by := owner{who: from.Who}
		if from.Who == principal.Anonymous {
			by.address = from.Source
		}
		count, limit, above := s.limiterFor(m.Method, by)
		if !count.acquire(by, limit) {
			s.rejectOverload(w, r, http.StatusTooManyRequests, m.ID, above)
			return
		}
		defer count.release(by)
		s.serve(r.Context(), r, x, s.Modern, from, class)
	}
}
