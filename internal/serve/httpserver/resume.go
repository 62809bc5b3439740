package httpserver

import (
	"errors"
	"net/http"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/store"
)

// resume makes conn the connection of the stream named by the Last-Event-ID values, and sends
// the events after that event. If that is not possible, resume rejects the request and returns
// nil.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, live *legacy.StoredSession, conn *eventStream, last []string) (stream *sessionStream, connDone <-chan struct{}) {
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
		rejectStoreFailure(w, jsonrpc.ID{})
	}
}
