package httpserver

import (
	"net/http"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
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
	switch m.Kind {
	case jsonrpc.Notification:
		s.notifyModern(w, r, m, class)
		return
	case jsonrpc.Response:
		reject(w, http.StatusBadRequest, jsonrpc.ID{},
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message must be a request or a " +
				"notification: revision 2026-07-28 has no responses from clients"})
		return
	}
	owner := s.ownerOf(r)
	count, limit := s.limiterFor(m.Method, owner)
	usage, ok := count.acquire(owner, limit)
	if !ok {
		s.rejectOverload(w, r, http.StatusTooManyRequests, m.ID, overloadOf(m))
		return
	}
	defer usage.release()
	c, fault := s.Modern.Open(r.Context(), m, class, owner.who, owner.address, binding(r.Header))
	if fault == rpc.StoreFailure {
		rejectStoreFailure(w, m.ID)
		return
	}
	if fault != nil {
		reject(w, max(modernStatus(fault.Code), http.StatusBadRequest), m.ID, fault)
		return
	}
	if rpc.IsLongLived(m.Method) {
		c.Closing = s.calls.closingSignal()
		expiry := s.expiryOf(r)
		defer expiry.stop()
		c.Expired = expiry.expired()
	}
	// The client cancels a request by closing its connection, which ends this context.
	ctx := r.Context()
	c.Bind(ctx)
	if s.begin(x, r, c) {
		c.Stream = &x.stream
	}
	defer x.stream.end()
	buf := rpc.NewBuffer()
	status := http.StatusOK
	x.stream.exited = true // unless AppendReply returns
	defer func() {
		s.respond(r, &x.stream, status, *buf, c.Overload)
		x.stream.end()
		rpc.FreeBuffer(buf)
	}()
	reported := s.Modern.Engine.AppendReply(ctx, buf, c, s.Modern.Identity)
	x.stream.exited = false
	if reported != nil {
		status = modernStatus(reported.Code)
	}
}

// notifyModern takes a notification. The core protocol defines none over HTTP, so only
// the handlers of extensions receive them. The version header is required.
func (s *Server) notifyModern(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, class revision.Class) {
	if class.Fault != nil {
		reject(w, http.StatusBadRequest, jsonrpc.ID{}, class.Fault.Wire())
		return
	}
	s.Modern.ServeNotification(r.Context(), m, class, s.principalOf(r), addressOf(r))
	respondEmpty(w, http.StatusAccepted)
}
