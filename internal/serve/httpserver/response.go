package httpserver

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// open makes the response to r a stream for the handler, or returns nil if the client does not accept event streams or
// the ResponseWriter cannot send them. It is also a stream of the session, if x.answer has one.
func (s *Server) open(r *http.Request, x *exchange) rpc.Stream {
	x.answer.server, x.answer.x, x.context.request, x.stream.ctx = s, x, r, r.Context()
	if x.answer.live != nil {
		x.stream.answer = &x.answer
	}
	switch {
	case !x.accept.events || !s.flushes(x.stream.w):
		return nil
	case x.answer.live != nil:
		return &x.answer
	}
	return &x.stream
}

// flushes reports whether w can send a part of a response, as http.ResponseController does. Otherwise events would
// arrive with the end of the response, and questions and notifications never. It logs that once.
func (s *Server) flushes(w http.ResponseWriter) bool {
	for inner := w; ; {
		switch x := inner.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			inner = x.Unwrap()
		default:
			s.unflushable.Do(func() {
				s.Logger.Error("a wrapper of the ResponseWriter has neither Flush nor Unwrap, so there are no event "+
					"streams: no questions in sessions, no progress, no subscriptions and no HTTP+SSE. Add the method "+
					"Unwrap() http.ResponseWriter to it", "type", fmt.Sprintf("%T", inner))
			})
			return false
		}
	}
}

// serve serves a request by the rules of its era, p, and sends the response. Ctx is the parent of the handler's
// context. Without a session, the client cancels the request by closing its connection.
func (s *Server) serve(ctx context.Context, r *http.Request, x *exchange, p rpc.Protocol, from rpc.Sender,
	class revision.Class) {
	stream, reply := s.open(r, x), rpc.NewBuffer()
	c, fault := p.NewCall(from, &x.message, class)
	if fault == nil {
		fault = p.Begin(ctx, c, stream)
	}
	if fault == nil && x.answer.live == nil {
		x.stream.broken = c
		if rpc.IsLongLived(c.Method()) {
			c.Closing = s.calls.closingSignal()
			expiry := expiryOf(r)
			defer expiry.stop()
			c.Expired = expiry.expired()
		}
	}
	s.calls.watch(&x.tracked, &x.stream, stream != nil)
	x.stream.exited = true
	var o outcome
	defer s.respond(x, stream, reply, &o) // also if a handler calls runtime.Goexit
	if fault != nil {
		*reply = jsonrpc.AppendError(*reply, x.message.ID, fault, false)
	} else {
		fault = p.AppendReply(reply, c)
	}
	o = outcomeOf(class.Era, c, fault)
	x.stream.exited = false
}

// outcomeOf returns the outcome of a call whose response reports an error, or nil. C may be nil if the error comes from
// NewCall.
//
// The status of 2026-07-28 is 200 for an error of the method itself, such as an unknown tool. The transport's page
// names the errors that are faults of the HTTP request (2026-07-28, basic/transports/streamable-http).
func outcomeOf(era revision.Era, c *rpc.Call, reported *jsonrpc.Error) (o outcome) {
	rejected := c == nil || !c.Served
	if c != nil {
		o.overload = c.Overload
	}
	switch {
	case reported == nil:
	case reported == rpc.StoreFailure:
		o.overload = rpc.ErrStoreUnavailable
	case era == revision.Modern:
		switch reported.Code {
		case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest,
			mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
			o.status = http.StatusBadRequest
		case jsonrpc.CodeMethodNotFound:
			o.status = http.StatusNotFound
		default:
			o.status = http.StatusOK
		}
		if c != nil && c.Ran && reported.Code != mcp.CodeMissingCapability {
			o.status = http.StatusOK // clients take a fault of the request as proof that the call has not run
		}
		if rejected {
			o.status = max(o.status, http.StatusBadRequest)
		}
		o.json = rejected || o.status == http.StatusNotFound
	}
	switch o.overload {
	case nil:
		return o
	case rpc.ErrStoreUnavailable:
		o.status = http.StatusServiceUnavailable
	default:
		o.status = http.StatusTooManyRequests
	}
	o.json = o.json || rejected
	return o
}

// respond sends the reply to a request, in buf: as JSON, or as an event if the event stream has begun or the client
// accepts only an event stream. If a handler requires scopes that the token does not grant, the response is JSON, and a
// challenge. It sends nothing if the client has disconnected and cannot resume the stream. The reply is empty if the
// client has cancelled the request. The stream is what open has returned.
func (s *Server) respond(x *exchange, stream rpc.Stream, buf *[]byte, o *outcome) {
	a, e, out := &x.answer, &x.stream, *buf
	defer rpc.FreeBuffer(buf)
	defer e.end()
	defer a.end()
	missing := s.Auth != nil && challenge.MissingScopes(x.context.request.Context()) != nil
	isJSON := o.json || missing || x.accept.json
	switch {
	case len(out) == 0 && stream != nil:
		e.open() // it ends without a response
		return
	case len(out) == 0:
		if !e.claim() {
			respondEmpty(e.w, http.StatusAccepted)
		}
		return
	case !isJSON && a.stream.Load() != nil, e.claim():
		if logged := a.ensureStream(); logged != nil {
			_ = logged.send(context.Background(), out, entryFinal) // waits for a slow reader
		} else {
			_ = e.Write(e.ctx, out)
		}
		return
	}
	status := cmp.Or(o.status, http.StatusOK)
	switch {
	case e.ctx.Err() != nil:
		return
	case !isJSON:
		a.respondOnly(out)
		return
	case missing:
		status = s.challenge(e.w, x.context.request)
	case o.overload != nil:
		setRetryAfter(e.w, o.overload.RetryAfter)
	}
	if e.exited {
		setLength(e.w, out)
		e.w.Header()["Connection"] = []string{"close"}
		defer http.NewResponseController(e.w).Flush()
	}
	reply(e.w, status, out)
}
