package httpserver

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
)

// response is the state of one HTTP request. An event stream that stays open keeps it in memory.
type response struct {
	stream  eventStream
	tracked trackedRequest
	accept  accepted // by the client
}

// exchange is the state of one POST request. It is one struct so that serving a request needs one allocation.
type exchange struct {
	response
	message jsonrpc.Message
	context detachedContext // has the request
	answer  answerStream
}

// detachedContext is the context of the handlers of a session's request. A disconnect is not a cancellation
// (2025-11-25, basic/transports, Sending Messages to the Server, 6), so it has the values of the request's context,
// but ends when the server shuts down. It avoids the allocations of package context.
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

// outcome is how a response is sent.
type outcome struct {
	status   int                 // if it is JSON; 0 means 200
	json     bool                // it is JSON, so that the status says what is wrong
	overload *call.OverloadError // the limit that has rejected the request, or nil
}

// answerStream is the response to a request. When it becomes an event stream in a session,
// it also becomes a stream of the session, which is logged and outlives its connection. A
// JSON response is not logged. An answerStream is safe for concurrent use.
type answerStream struct {
	server *Server
	live   *legacy.StoredSession         // nil without a session
	x      *exchange                     // has the request and its connection
	batch  *legacy.Batch                 // instead of x.message
	stream atomic.Pointer[sessionStream] // nil until ensureStream makes it
}

var _ rpc.Stream = (*answerStream)(nil)

// origin returns the origin of the stream; see entry.
func (a *answerStream) origin(replica string) []byte {
	if a.batch != nil {
		return originOf(replica, jsonrpc.ID{}, a.batch.IDs())
	}
	return originOf(replica, a.x.message.ID, nil)
}

// ensureStream makes the response a stream of the session on the first call, and returns it. It returns nil if the
// revision has no resumable streams, or if the client disconnected before it could receive the id of the stream.
func (a *answerStream) ensureStream() *sessionStream {
	if s := a.stream.Load(); s != nil {
		return s
	}
	if !a.isResumable() || a.x.stream.ctx.Err() != nil {
		return nil
	}
	s := a.server.Streams.add(a.live.Key(), &a.x.stream)
	if !a.stream.CompareAndSwap(nil, s) { // another goroutine was first
		s.end()
		return a.stream.Load()
	}
	return s
}

// opening appends the first event of the stream. The caller holds mu of conn.
func (a *answerStream) opening(dst []byte) []byte {
	if !revision.StreamPolling.In(a.live.Revision) {
		return dst
	}
	if s := a.ensureStream(); s != nil {
		s.mu.Lock()
		opened := s.opened
		s.mu.Unlock()
		dst = httpcodec.AppendPriming(dst, s.key.Stream, opened)
	}
	return dst
}

// needsEntry returns the stream if keepLogged must be called, because other replicas must know the stream while it has
// no events. Otherwise it returns nil. Open means that the response may become a stream. The caller holds mu of conn.
func (a *answerStream) needsEntry(open bool) *sessionStream {
	if a.server.Streams.Lease == nil {
		return nil
	}
	s := a.stream.Load()
	if s == nil && open && revision.StreamPolling.In(a.live.Revision) {
		s = a.ensureStream()
	}
	if s == nil || !s.needsEntry() {
		return nil
	}
	return s
}

// Write implements rpc.Stream.
func (a *answerStream) Write(ctx context.Context, msg []byte) error {
	if s := a.ensureStream(); s != nil {
		return s.send(ctx, msg, entryMessage)
	}
	return a.x.stream.Write(ctx, msg)
}

// Broken returns the error that broke the connection, or nil. It returns nil for a stream
// of the session, because the client can resume that.
func (a *answerStream) Broken() error {
	if a.stream.Load() != nil {
		return nil
	}
	return a.x.stream.Broken()
}

// Connected reports whether the client can receive messages now.
func (a *answerStream) Connected() bool {
	if s := a.stream.Load(); s != nil {
		return s.isConnected()
	}
	return a.x.stream.isOpen()
}

// returnTime is the time for a client to return to a stream whose connection has ended.
const returnTime = 10 * time.Second

// AwaitLeave waits until the client has disconnected and does not return, or until ctx ends. It reports whether the
// client has left.
func (a *answerStream) AwaitLeave(ctx context.Context) bool {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	first := a.x.stream.ctx.Done()
	for left := (time.Time{}); ; {
		s := a.stream.Load()
		switch now := time.Now(); {
		case a.Connected():
			left = time.Time{}
		case s == nil: // it cannot be resumed
			return true
		case left.IsZero():
			left = now
		case now.Sub(left) >= returnTime:
			return true
		}
		select {
		case <-first:
			first = nil
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// respondOnly sends the response as the only event of the stream, which the caller has
// claimed. The stream has ended when its event is logged, so it is not registered.
func (a *answerStream) respondOnly(out []byte) {
	buf := rpc.NewBuffer()
	defer rpc.FreeBuffer(buf)
	if !a.isResumable() {
		*buf = httpcodec.AppendMessage(*buf, out)
	} else if stream, ok := a.server.Streams.logOnly(a.live.Key(), out); ok {
		if revision.StreamPolling.In(a.live.Revision) {
			*buf = httpcodec.AppendPriming(*buf, stream, 0)
		}
		*buf = httpcodec.AppendNumbered(*buf, stream, 1, out)
		if a.live.Deleted() { // the log was deleted before or after the event was logged
			a.server.Streams.drop(a.live.Key())
		}
	} else {
		*buf = httpcodec.AppendMessage(*buf, out)
	}
	a.x.stream.sendOnly(*buf)
}

// isResumable reports whether the client can resume the stream.
func (a *answerStream) isResumable() bool {
	return a.live != nil && revision.ResumableStreams.In(a.live.Revision)
}

// end ends the stream of the session, if there is one.
func (a *answerStream) end() {
	if s := a.stream.Load(); s != nil {
		s.logEnd()
		s.end()
	}
}
