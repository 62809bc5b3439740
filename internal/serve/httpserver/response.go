package httpserver

import (
	"context"
	"net/http"
	"strconv"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// response is the state of one HTTP request. An event stream that stays open keeps it in memory.
type response struct {
	stream  eventStream
	tracked trackedRequest
}

// exchange is the state of one POST request. It is one struct so that serving a request needs one allocation.
type exchange struct {
	response
	message jsonrpc.Message
	context detachedContext // has the request, if it is one of a session
	answer  answerStream    // for requests of a session
}

// begin makes x.stream the response to r. It reports whether the client accepts event
// streams; if so, the stream is kept alive. The caller must call x.stream.end.
func (s *Server) begin(x *exchange, r *http.Request, cancel canceler) (streams bool) {
	x.stream.ctx, x.stream.broken = r.Context(), cancel
	var alive *eventStream
	if streams = accepts(r.Header, "text/event-stream"); streams {
		alive = &x.stream
	}
	s.calls.watch(&x.tracked, cancel, alive)
	return streams
}

// detachedContext has the values of the context of a request and the lifetime of the server.
// It avoids the allocations of package context.
type detachedContext struct {
	context.Context // cancelled when the server shuts down
	request         *http.Request
}

// Value implements context.Context.
func (d *detachedContext) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.request.Context().Value(key)
}

// respond sends the response as JSON, or as an event if e has begun or the client accepts only an event stream. The
// response to an unknown method is JSON even for such a client, so that the status says it. It sends nothing if the
// client has disconnected. Overload is the limit that has rejected the request, or nil.
func (s *Server) respond(r *http.Request, e *eventStream, status int, out []byte, overload *call.OverloadError) {
	accepted := status == http.StatusNotFound || accepts(r.Header, "application/json")
	switch {
	case s.respondJSON(r, e, accepted, status, out, overload):
	case e.ctx.Err() != nil:
	case e.claim(): // the stream has started
		_ = e.write(e.ctx, func(dst []byte) []byte { return httpcodec.AppendEvent(dst, "", out) })
	default:
		buf := rpc.NewBuffer()
		*buf = httpcodec.AppendEvent(*buf, "", out)
		e.sendOnly(*buf)
		rpc.FreeBuffer(buf)
	}
}

// respondJSON sends the response as JSON, which keeps e from starting, if accepted is set or if a handler requires
// scopes that the token does not grant: the response is then a challenge. It reports false if the response must be an
// event, because e has started or JSON is not accepted. It sends nothing if the client has disconnected.
func (s *Server) respondJSON(r *http.Request, e *eventStream, accepted bool, status int, out []byte,
	overload *call.OverloadError) bool {
	missing := s.Auth != nil && challenge.MissingScopes(r.Context()) != nil
	switch {
	case !accepted && !missing || e.claim():
		return false
	case e.ctx.Err() != nil:
		return true
	case missing:
		status = s.challenge(e.w, r)
	case overload == rpc.ErrStoreUnavailable:
		status = http.StatusServiceUnavailable
		setRetryAfter(e.w, overload.RetryAfter)
	case overload != nil:
		status = http.StatusTooManyRequests
		setRetryAfter(e.w, overload.RetryAfter)
	}
	if e.exited {
		setLength(e.w, out)
		e.w.Header()["Connection"] = []string{"close"}
		defer http.NewResponseController(e.w).Flush()
	}
	reply(e.w, status, out)
	return true
}

// knownLength is the length of a body, in bytes, up to which net/http sets Content-Length.
const knownLength = 2048

// reply sends a JSON body. The write has a deadline, so a client that stops reading cannot block the handler.
func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = httpcodec.JSONType
	if len(body) > knownLength {
		setLength(w, body)
	}
	setWriteDeadline(w, len(body))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// respondEmpty sends a response without a body.
func respondEmpty(w http.ResponseWriter, status int) {
	setWriteDeadline(w, 0)
	w.WriteHeader(status)
}

func setLength(w http.ResponseWriter, body []byte) {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
}

// reject sends e as a JSON-RPC error with an HTTP status.
func reject(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	reply(w, status, jsonrpc.AppendError(nil, id, e, false))
}

// rejectMethod rejects a request whose HTTP method is not in allow.
func rejectMethod(w http.ResponseWriter, allow string) {
	w.Header()["Allow"] = []string{allow}
	reject(w, http.StatusMethodNotAllowed, jsonrpc.ID{},
		&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method not allowed: use " + allow})
}
