package httpserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// getStream serves a GET request of a session. It starts the standalone stream or, with a Last-Event-ID header, resumes
// a stream (2025-11-25, basic/transports, Resumability and Redelivery).
//
// While the connection is open, which may be for hours, its goroutine only waits. Its stack
// stays small, since the work is done on other stacks.
func (s *Server) getStream(w http.ResponseWriter, r *http.Request, x *response, id string) {
	x.stream.ctx, x.stream.broken = r.Context(), make(failure)
	defer x.stream.end()
	c := &servedStream{server: s, conn: &x.stream}
	defer c.close()
	if onOtherStack(func() bool { return c.open(w, r, id) }) {
		c.serve()
	}
}

// failure is closed when a write to an event stream fails. It takes less memory than a context.
type failure chan struct{}

// Cancel implements rpc.Canceler. It must be called at most once.
func (f failure) Cancel(error) { close(f) }

// servedStream is a stream of a session and its connection.
type servedStream struct {
	server   *Server
	conn     *eventStream
	live     *legacy.StoredSession
	retained bool           // close releases live; otherwise the end of the stream does
	stream   *sessionStream // nil if the request was rejected
	connDone <-chan struct{}

	tick   *time.Ticker
	pinger legacy.Pinger
	follow *follower // nil unless stream.follows
	expiry *expiry   // of a standalone stream; may be nil
}

// open makes conn the connection of a stream. If that is not possible, open rejects the request and reports false.
func (c *servedStream) open(w http.ResponseWriter, r *http.Request, id string) bool {
	s := c.server
	live, ok := s.use(w, r, id, jsonrpc.ID{})
	if !ok {
		return false
	}
	c.live = live
	last := r.Header[httpcodec.HeaderLastEventID]
	if revision.ResumableStreams.In(live.Revision) && len(last) > 0 && (len(last) > 1 || last[0] != "") {
		c.retained = true
		c.stream, c.connDone = s.resume(w, r, live, c.conn, last)
	} else {
		var err error
		if c.stream, c.connDone, err = s.listen(r.Context(), live, c.conn); err != nil {
			live.Release()
			s.rejectSession(w, r, jsonrpc.ID{}, err)
		}
	}
	if c.stream == nil {
		return false
	}
	c.prepare(r)
	return true
}

// prepare makes what serve uses.
func (c *servedStream) prepare(r *http.Request) {
	c.tick, c.pinger = time.NewTicker(c.server.KeepAlive), c.live.NewPinger(c.server.KeepAlive)
	if c.stream.feed != nil {
		c.expiry = expiryOf(r)
	}
	if c.stream.follows {
		c.follow = c.stream.newFollower()
		c.follow.poll(c.conn.ctx)
	}
}

// serve serves the connection until it or the stream ends or another connection takes over.
func (c *servedStream) serve() {
	for {
		if work := c.next(); work == nil || !onOtherStack(work) {
			return
		}
	}
}

// next waits for work, which reports whether to go on. It returns nil when the connection has ended.
func (c *servedStream) next() (work func() bool) {
	var poll <-chan time.Time
	if c.follow != nil {
		poll = c.follow.ticker.C
	}
	var wake, taken <-chan struct{}
	if c.stream.feed != nil {
		wake, taken = c.stream.feed.notifications.Wake(), c.stream.feed.taken
	}
	failed, _ := c.conn.broken.(failure)
	select {
	case <-poll:
		return c.pollLog
	case <-c.stream.wake:
		return c.readLog
	case <-c.tick.C:
		return c.keepAlive
	case <-wake:
		return c.sendNotifications
	case <-taken:
		return c.endTaken
	case <-c.stream.done:
	case <-c.connDone:
	case <-failed:
	case <-c.expiry.expired():
	case <-c.conn.ctx.Done():
	}
	return nil
}

func (c *servedStream) pollLog() bool {
	c.follow.poll(c.conn.ctx)
	return true
}

// readLog sends the events that another replica has logged.
func (c *servedStream) readLog() bool {
	if c.follow != nil {
		c.follow.read(c.conn.ctx)
	} else {
		c.stream.readAfterTakeOver(c.conn.ctx)
	}
	return true
}

func (c *servedStream) sendNotifications() bool {
	c.stream.sendNotifications(c.server.calls.lifetime())
	return true
}

// keepAlive renews the session, which is in use while the connection is open, and sends a ping or a comment.
func (c *servedStream) keepAlive() bool {
	ctx := c.conn.ctx
	if c.live.Touch(ctx) != nil {
		return false
	}
	err := c.server.sendKeepAlive(ctx, c.stream.feed != nil, &c.pinger, c.conn)
	if isSilent(err) {
		c.live.ExpireSoon(ctx, logTTL)
	}
	return err == nil
}

func (c *servedStream) endTaken() bool {
	c.stream.end()
	return false
}

// close ends the use of the stream by the connection.
func (c *servedStream) close() {
	if c.retained {
		defer c.live.Release()
	}
	if c.tick != nil {
		c.tick.Stop()
	}
	if c.follow != nil {
		c.follow.close()
	}
	c.expiry.stop()
	if c.stream != nil {
		c.stream.disconnected(c.conn)
		if c.stream.replay {
			c.stream.all.removeUnused(c.stream)
		} else if !revision.ResumableStreams.In(c.live.Revision) {
			c.stream.end()
		}
	}
}

// resume makes conn the connection of the stream named by the Last-Event-ID values, and sends the events after that
// event. If that is not possible, resume rejects the request and returns nil.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, live *legacy.StoredSession, conn *eventStream,
	last []string) (stream *sessionStream, connDone <-chan struct{}) {
	name, seq, ok := httpcodec.ParseEventID(last[0])
	if !ok || len(last) > 1 {
		rejectInvalid(w, jsonrpc.ID{}, "the Last-Event-ID header must be the id of an event of this session")
		return nil, nil
	}
	s.Streams.endTakenOver(live.Key()) // another replica may have taken over a stream of this one
	var err error
	if s.canTakeOver(store.StreamKey{Group: live.Key(), Stream: name}) {
		stream, connDone, err = s.takeOver(r.Context(), live, conn, name, seq)
	} else {
		stream, connDone, err = s.Streams.resume(r.Context(), live.Key(), name, seq, conn)
	}
	if err != nil {
		s.cannotResume(w, r, err)
		return nil, nil
	}
	return stream, connDone
}

// cannotResume rejects a request to resume a stream. The status is never 404, which means that the session has ended.
func (s *Server) cannotResume(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errUnknownEvent):
		rejectInvalid(w, jsonrpc.ID{},
			"the Last-Event-ID header must name an event of this session that is still stored")
	case errors.Is(err, store.ErrPurged):
		reject(w, http.StatusGone, jsonrpc.ID{},
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: "cannot resume the stream: events after the Last-Event-ID are no longer stored"})
	case r.Context().Err() != nil: // the client has disconnected
	default:
		s.Logger.ErrorContext(r.Context(), "event store failed", "error", err)
		rejectStoreFailure(w, jsonrpc.ID{})
	}
}

// sendKeepAlive sends a ping if own is set and pings are enabled, and otherwise a comment.
// own means that the stream may carry requests of the server. The error is a
// *call.SilentError if the client does not answer pings, or that of conn.
func (s *Server) sendKeepAlive(ctx context.Context, own bool, pinger *legacy.Pinger, conn *eventStream) error {
	if !own || !s.Ping {
		return conn.comment()
	}
	ping, lost := pinger.Next(ctx)
	switch {
	case lost != nil:
		s.Logger.Warn("client does not answer pings", "error", lost)
		return lost
	case ping == nil:
		return conn.comment()
	}
	// Do not log the ping: a client that resumes the stream later gets a new one.
	return conn.write(ctx, func(dst []byte) []byte { return httpcodec.AppendMessage(dst, ping) })
}

// isSilent reports whether err means that the client does not answer pings.
func isSilent(err error) bool {
	var silent *call.SilentError
	return errors.As(err, &silent)
}
