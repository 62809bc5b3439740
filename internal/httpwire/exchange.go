package httpwire

import (
	"context"
	"net/http"

	"github.com/parley-mcp/parley/jsonrpc"
)

// exchange is what serving one POST needs, in one piece of memory: on the hot path the
// allocations weigh as much as what is done with them.
type exchange struct {
	message jsonrpc.Message
	stream  eventStream
	tracked trackedRequest
	context detachedContext // of a session's request
	answer  answerStream    // likewise
}

// begin makes the exchange's stream the response to a request, and has it kept alive if
// the client accepts one, which it reports. It is followed by end.
func (s *Server) begin(x *exchange, w http.ResponseWriter, r *http.Request, cancel canceler) (streams bool) {
	x.stream.w, x.stream.ctx, x.stream.broken = w, r.Context(), cancel
	x.tracked.cancel = cancel
	if streams = accepts(r.Header, "text/event-stream"); streams {
		x.tracked.stream = &x.stream
	}
	s.calls.watch(&x.tracked, s.KeepAlive)
	return streams
}

func (s *Server) end(x *exchange) {
	s.calls.forget(&x.tracked)
	x.stream.end()
}

// detached is a context with the values of a request's and the end of the
// server's. It costs less than one that is made by package context for each
// request, which calls of sessions would pay for twice.
type detachedContext struct {
	context.Context // the server's
	values          context.Context
}

// Value implements context.Context.
func (d *detachedContext) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}
