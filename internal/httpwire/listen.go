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

// getStream is a GET within a session: for its standalone stream, or for any of its
// streams that is to go on where the client has lost it (2025-11-25, basic/transports,
// Resumability and Redelivery).
func (s *Server) getStream(w http.ResponseWriter, r *http.Request, id string) {
	live, ok := s.open(w, r, id, jsonrpc.ID{})
	if !ok {
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	conn := &eventStream{w: w, ctx: ctx, broken: cancelFunc(cancel)}
	defer conn.end()
	last := r.Header[headerLastEventID]
	if revision.ResumableStreams.In(live.Revision) && len(last) > 0 && (len(last) > 1 || last[0] != "") {
		defer live.Release()
		s.resume(w, r, live, conn, last)
		return
	}
	s.listen(ctx, live, conn, s.expiryOf(r))
}

// listen begins the session's standalone stream, which keeps live for as long as its
// client may come back.
func (s *Server) listen(ctx context.Context, live *legacy.StoredSession, conn *eventStream, expiry *expiry) {
	f := &feed{live: live}
	f.taken, f.notifications = live.Stream()
	group := groupOf(live.Key())
	s.Streams.endTakenOver(group)
	stream := s.Streams.add(group, kindGet, f, nil)
	resumable := revision.ResumableStreams.In(live.Revision)
	stream.incomplete = !resumable
	conn.enqueue(func(dst []byte) []byte {
		if revision.StreamPolling.In(live.Revision) {
			return appendPriming(dst, stream.key.Stream, 0, retryHint.Milliseconds())
		}
		return appendComment(dst)
	})
	connDone := stream.connect(conn)
	s.serveStream(ctx, live, stream, conn, connDone, expiry)
	if !resumable {
		stream.end()
	}
}

// resume has one of the session's streams go on.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, live *legacy.StoredSession, conn *eventStream, last []string) {
	name, seq, ok := parseEventID(last[0])
	if !ok || len(last) > 1 {
		rejectInvalid(w, jsonrpc.ID{}, "the Last-Event-ID header is not an id of this session's events: send it as it came, or not at all")
		return
	}
	stream, err := s.Streams.find(r.Context(), groupOf(live.Key()), name, seq)
	if err != nil {
		s.cannotResume(w, r, err)
		return
	}
	if stream.replay {
		defer s.Streams.remove(stream)
	}
	connDone, err := stream.resume(r.Context(), seq, conn)
	if err != nil {
		s.cannotResume(w, r, err)
		return
	}
	s.serveStream(conn.ctx, live, stream, conn, connDone, s.expiryOf(r))
}

// cannotResume answers a client that asks for what is not to be had. It is not told
// 404, which would say that its session has ended.
func (s *Server) cannotResume(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errUnknownEvent):
		rejectInvalid(w, jsonrpc.ID{}, "the Last-Event-ID header names no event that this session has, or holds still")
	case errors.Is(err, store.ErrPurged):
		reject(w, http.StatusGone, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "events that followed the one in the Last-Event-ID header are no longer held: the stream cannot be resumed without a gap"})
	case r.Context().Err() != nil: // nobody is there
	default:
		s.Logger.ErrorContext(r.Context(), "event store failed", "error", err)
		reject(w, http.StatusServiceUnavailable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "held events are unavailable"})
	}
}

// attend serves a connection of a stream until either ends, or another connection
// takes over. It needs no goroutine but the request's.
func (s *Server) serveStream(ctx context.Context, live *legacy.StoredSession, stream *sessionStream, conn *eventStream, connDone <-chan struct{}, expiry *expiry) {
	defer expiry.stop()
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	defer stream.disconnected(conn)
	var wake, taken <-chan struct{}
	var expired <-chan time.Time
	pinger := live.NewPinger(s.KeepAlive)
	if stream.feed != nil {
		wake, taken, expired = stream.feed.notifications.Wake(), stream.feed.taken, expiry.expired()
	}
	for {
		select {
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
		case <-expired:
			return
		case <-ctx.Done():
			return
		}
	}
}

// beat keeps a stream alive that would be silent: by a ping that its client has to
// answer, where it may carry one, or by a comment. The error says why the stream is of no
// more use; it is a *call.SilentError if that is the client's silence.
func (s *Server) sendKeepAlive(ctx context.Context, own bool, pinger *legacy.Pinger, conn *eventStream) error {
	if !own || !s.Ping {
		return conn.comment()
	}
	ping, lost := pinger.Next(ctx)
	switch {
	case lost != nil:
		s.Logger.Warn("a client does not answer any more", "error", lost)
		return lost
	case ping == nil:
		return conn.comment()
	}
	// Not one of the events that are held: whoever comes back later is asked anew.
	return conn.write(ctx, func(dst []byte) []byte { return appendEvent(dst, "", ping) })
}

func isSilent(err error) bool {
	var silent *call.SilentError
	return errors.As(err, &silent)
}

// tell tells the client of a session what has changed. The context is not that of a
// connection: what has been taken is said, or held.
func (s *sessionStream) sendNotifications(ctx context.Context) {
	for _, notification := range s.feed.notifications.Take() {
		_ = s.send(ctx, notification, entryMessage)
	}
}

// deliver tells the client of a pair what there is to say.
func writeNotifications(stream *eventStream, notifications *legacy.NotificationQueue) error {
	for _, notification := range notifications.Take() {
		if err := stream.Write(stream.ctx, notification); err != nil {
			return err
		}
	}
	return nil
}
