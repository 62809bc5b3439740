package httpwire

import (
	"context"
	"net/http"

	"github.com/parley-mcp/parley/jsonrpc"
)

// exchange is the state of one POST request. It is one struct so that serving a request
// needs one allocation.
type exchange struct {
	message jsonrpc.Message
	stream  eventStream
	tracked trackedRequest
	context detachedContext // for requests of a session
	answer  answerStream    // for requests of a session
}

// begin makes x.stream the response to r. It reports whether the client accepts event
// streams; if so, the stream is kept alive. The caller must call end.
func (s *Server) begin(x *exchange, w http.ResponseWriter, r *http.Request, cancel canceler) (streams bool) {
	x.stream.w, x.stream.ctx, x.stream.broken = w, r.Context(), cancel
	x.tracked.cancel = cancel
	if streams = accepts(r.Header, "text/event-stream"); streams {
		x.tracked.stream = &x.stream
	}
	s.calls.watch(&x.tracked, s.KeepAlive)
	return streams
}

// end sends what is queued and ends the tracking of the request.
func (s *Server) end(x *exchange) {
	s.calls.forget(&x.tracked)
	x.stream.end()
}

// detachedContext has the values of a request's context and the lifetime of the server.
// It avoids the allocations of package context.
type detachedContext struct {
	context.Context // cancelled when the server shuts down
	values          context.Context
}

// Value implements context.Context.
func (d *detachedContext) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}
