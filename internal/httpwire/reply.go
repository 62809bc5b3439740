package httpwire

import (
	"net/http"
	"strconv"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// respond sends the response as JSON, or as an event if e has begun or the client accepts
// only an event stream. It sends nothing if the client has disconnected. Overload is the
// limit that has rejected the request, or nil.
func (s *Server) respond(r *http.Request, e *eventStream, status int, out []byte, overload *call.OverloadError) {
	if e.ctx.Err() != nil {
		return
	}
	switch {
	case s.asJSON(r, e):
		s.respondJSON(r, e, status, out, overload)
	case e.claim(): // the stream has started
		_ = e.write(e.ctx, func(dst []byte) []byte { return httpcodec.AppendEvent(dst, "", out) })
	default:
		buf := rpc.NewBuffer()
		*buf = httpcodec.AppendEvent(*buf, "", out)
		e.sendOnly(*buf)
		rpc.FreeBuffer(buf)
	}
}

// respondJSON sends the response as JSON unless the client has disconnected.
func (s *Server) respondJSON(r *http.Request, e *eventStream, status int, out []byte, overload *call.OverloadError) {
	if e.ctx.Err() != nil {
		return
	}
	if overload != nil {
		if status = http.StatusTooManyRequests; overload == rpc.ErrStoreUnavailable {
			status = http.StatusServiceUnavailable
		}
		setRetryAfter(e.w, overload.RetryAfter)
	}
	s.replyOn(e, r, status, out)
}

// replyOn sends a JSON body as the response e, which has not started.
func (s *Server) replyOn(e *eventStream, r *http.Request, status int, body []byte) {
	if e.exited {
		setLength(e.w, body)
		e.w.Header()["Connection"] = []string{"close"}
		defer http.NewResponseController(e.w).Flush()
	}
	s.reply(e.w, r, status, body)
}

// asJSON reports whether to send the response as one JSON body. If so, it prevents e from
// starting.
func (s *Server) asJSON(r *http.Request, e *eventStream) bool {
	return (accepts(r.Header, "application/json") || s.missingScopes(r)) && !e.claim()
}

// missingScopes reports whether a handler requires scopes that the token of r does not
// grant. The response is then a challenge.
func (s *Server) missingScopes(r *http.Request) bool {
	return s.Auth != nil && challenge.MissingScopes(r.Context()) != nil
}

// reply sends a JSON body. If scopes are missing, the status and headers are those of a
// challenge.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	if s.missingScopes(r) {
		status = s.challenge(w, r)
	}
	reply(w, status, body)
}

// knownLength is the length of a body, in bytes, up to which net/http sets Content-Length.
const knownLength = 2048

// reply sends a JSON body. The write has a deadline, so a client that stops reading cannot
// block the handler.
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
	reject(w, http.StatusMethodNotAllowed, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method not allowed: use " + allow})
}
