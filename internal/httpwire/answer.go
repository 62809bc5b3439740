package httpwire

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
)

// answerStream is the response to a request of a session. Once it is an event stream
// it is one of the session's streams too, and outlives the connection. Before, and if
// the answer is plain JSON, nothing is held.
type answerStream struct {
	server *Server
	live   *legacy.StoredSession
	r      *http.Request
	conn   *eventStream
	stream atomic.Pointer[sessionStream] // nil until there is one
}

var (
	_ rpc.Stream       = (*answerStream)(nil)
	_ rpc.StreamCloser = (*answerStream)(nil)
)

// begin makes conn the connection of the answer to r.
func (a *answerStream) begin(s *Server, live *legacy.StoredSession, r *http.Request, conn *eventStream) {
	a.server, a.live, a.r, a.conn = s, live, r, conn
	conn.answer = a
}

// held makes the response one of the session's streams, unless it is already. It
// returns nil if there is none: the revision has no such thing, or the client has gone
// away before it could hear of the stream.
func (a *answerStream) ensureStream() *sessionStream {
	if s := a.stream.Load(); s != nil {
		return s
	}
	if !revision.ResumableStreams.In(a.live.Revision) || a.conn.ctx.Err() != nil {
		return nil
	}
	s := a.server.Streams.add(groupOf(a.live.Key()), kindPost, nil, a.conn)
	if !a.stream.CompareAndSwap(nil, s) { // somebody else was faster
		s.end()
		return a.stream.Load()
	}
	return s
}

// opening appends what an event stream begins with. It is called with mu of conn held.
func (a *answerStream) opening(dst []byte) []byte {
	if !revision.StreamPolling.In(a.live.Revision) {
		return dst
	}
	if s := a.ensureStream(); s != nil {
		dst = appendPriming(dst, s.key.Stream, 0, retryHint.Milliseconds())
	}
	return dst
}

// Write implements call.Stream.
func (a *answerStream) Write(ctx context.Context, msg []byte) error {
	if s := a.ensureStream(); s != nil {
		return s.send(ctx, msg, entryMessage)
	}
	return a.conn.Write(ctx, msg)
}

// Broken returns why nothing reaches the client, or nil. A client that is away may
// come back for what is held.
func (a *answerStream) Broken() error {
	if a.stream.Load() != nil {
		return nil
	}
	return a.conn.Broken()
}

// CloseStream implements call.StreamCloser.
func (a *answerStream) CloseStream(ctx context.Context, retry time.Duration) error {
	if !revision.StreamPolling.In(a.live.Revision) {
		return rpc.ErrUnsupported
	}
	s := a.ensureStream()
	if s == nil { // the client is away, and will not come back
		return nil
	}
	return s.closeConnection(ctx, min(max(retry, 0), maxRetryHint))
}

const (
	retryHint    = time.Second     // for a client that loses its connection
	maxRetryHint = 2 * time.Minute // some time before what is held expires
)

// respond sends the response: as JSON, unless messages came before it or the client
// wants an event stream.
func (a *answerStream) respond(out []byte) {
	if a.server.asJSON(a.r, a.conn) {
		if a.conn.ctx.Err() == nil {
			a.server.reply(a.conn.w, a.r, http.StatusOK, out)
		}
		return
	}
	if s := a.ensureStream(); s != nil {
		_ = s.send(context.Background(), out, entryFinal) // the reader is waited for while it reads at all
		return
	}
	_ = a.conn.Write(a.conn.ctx, out)
}

// end says that nothing more is sent on the stream, if there is one.
func (a *answerStream) end() {
	if s := a.stream.Load(); s != nil {
		s.end()
	}
}
