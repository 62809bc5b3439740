package httpserver

import (
	"context"
	"net/http"

	"github.com/parley-mcp/parley/jsonrpc"
)

// response is the state of one HTTP request. An event stream that stays open keeps it in memory.
type response struct {
	stream  eventStream
	tracked trackedRequest
}

// exchange is the state of one POST request. It is one struct so that serving a request needs
// one allocation.
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
