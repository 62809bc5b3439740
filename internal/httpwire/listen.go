package httpwire

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

const headerLastEventID = "Last-Event-Id"

// getStream serves a GET request of a session. It starts the standalone stream or, with a
// Last-Event-ID header, resumes a stream (2025-11-25, basic/transports, Resumability and
// Redelivery).
func (s *Server) getStream(w http.ResponseWriter, r *http.Request, x *response, id string) {
	live, ok := s.open(w, r, id, jsonrpc.ID{})
	if !ok {
		return
	}
	conn := &x.stream
	conn.ctx, conn.broken = r.Context(), make(failure)
	defer conn.end()
	last := r.Header[headerLastEventID]
	if revision.ResumableStreams.In(live.Revision) && len(last) > 0 && (len(last) > 1 || last[0] != "") {
		defer live.Release()
		s.resume(w, r, live, conn, last)
		return
	}
	if err := s.listen(r.Context(), live, conn, s.expiryOf(r)); err != nil {
		live.Release()
		s.rejectSession(w, r, jsonrpc.ID{}, err)
	}
}

// failure is closed when a write to an event stream fails. It takes less memory than a context.
type failure chan struct{}

// Cancel implements canceler. It must be called at most once.
func (f failure) Cancel(error) { close(f) }

// resume serves a stream of the session after the event named by the Last-Event-ID values.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, live *legacy.StoredSession, conn *eventStream, last []string) {
	name, seq, ok := parseEventID(last[0])
	if !ok || len(last) > 1 {
		rejectInvalid(w, jsonrpc.ID{}, "the Last-Event-ID header must be the id of an event of this session")
		return
	}
	s.Streams.endTakenOver(live.Key()) // another replica may have taken over a stream of this one
	if s.canTakeOver(store.StreamKey{Group: live.Key(), Stream: name}) {
		if err := s.takeOver(r, live, conn, name, seq); err != nil {
			s.cannotResume(w, r, err)
		}
		return
	}
	stream, err := s.Streams.find(r.Context(), live.Key(), name, seq)
	if err != nil {
		s.cannotResume(w, r, err)
		return
	}
	if stream.replay {
		defer s.Streams.removeUnused(stream)
	}
	connDone, err := stream.resume(r.Context(), seq, conn)
	if err != nil {
		s.cannotResume(w, r, err)
		return
	}
	if stream.follows {
		s.Streams.putAgain(stream)
	}
	s.serveStream(conn.ctx, live, stream, conn, connDone, s.expiryOf(r))
}

// cannotResume rejects a request to resume a stream. The status is never 404, which means
// that the session has ended.
func (s *Server) cannotResume(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errUnknownEvent):
		rejectInvalid(w, jsonrpc.ID{}, "the Last-Event-ID header must name an event of this session that is still stored")
	case errors.Is(err, store.ErrPurged):
		reject(w, http.StatusGone, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "cannot resume the stream: events after the Last-Event-ID are no longer stored"})
	case r.Context().Err() != nil: // the client has disconnected
	default:
		s.Logger.ErrorContext(r.Context(), "event store failed", "error", err)
		reject(w, http.StatusServiceUnavailable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "event store unavailable: retry later"})
	}
}

// serveStream serves a connection of a stream until either ends or another connection
// takes over. It starts no goroutine.
func (s *Server) serveStream(ctx context.Context, live *legacy.StoredSession, stream *sessionStream, conn *eventStream, connDone <-chan struct{}, expiry *expiry) {
	defer expiry.stop()
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	defer stream.disconnected(conn)
	failed, _ := conn.broken.(failure)
	var wake, taken <-chan struct{}
	var expired <-chan time.Time
	pinger := live.NewPinger(s.KeepAlive)
	if stream.feed != nil {
		wake, taken, expired = stream.feed.notifications.Wake(), stream.feed.taken, expiry.expired()
	}
	var follow *follower
	var poll <-chan time.Time
	if stream.follows {
		follow = stream.newFollower()
		defer follow.ticker.Stop()
		poll = follow.ticker.C
		follow.poll(ctx)
	}
	for {
		select {
		case <-poll:
			follow.poll(ctx)
		case <-stream.wake:
			if follow != nil {
				follow.read(ctx)
			} else {
				stream.readAfterTakeOver(ctx)
			}
		case <-tick.C:
			if live.Touch(ctx) != nil {
				return
			}
			if err := s.sendKeepAlive(ctx, stream.feed != nil, &pinger, conn); err != nil {
				if isSilent(err) {
					live.ExpireSoon(ctx, logTTL)
				}
				return
			}
		case <-wake:
			stream.sendNotifications(s.calls.lifetime())
		case <-taken:
			stream.end()
			return
		case <-stream.done:
			return
		case <-connDone:
			return
		case <-failed:
			return
		case <-expired:
			return
		case <-ctx.Done():
			return
		}
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
	return conn.write(ctx, func(dst []byte) []byte { return appendEvent(dst, "", ping) })
}

// isSilent reports whether err means that the client does not answer pings.
func isSilent(err error) bool {
	var silent *call.SilentError
	return errors.As(err, &silent)
}

// writeNotifications sends the queued notifications on the event stream of a pair.
func writeNotifications(stream *eventStream, notifications *legacy.NotificationQueue) error {
	for _, notification := range notifications.Take() {
		if err := stream.Write(stream.ctx, notification); err != nil {
			return err
		}
	}
	return nil
}
