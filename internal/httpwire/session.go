package httpwire

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// postLegacy serves one message of a session (2025-11-25, basic/transports,
// Sending Messages to the Server).
func (s *Server) postLegacy(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	id := first(r.Header, headerSession)
	if id == "" {
		if m.Kind == jsonrpc.Request && m.Method == mcp.MethodInitialize {
			s.initialize(w, r, m)
			return
		}
		refuse(w, http.StatusBadRequest, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the Mcp-Session-Id header is missing: send initialize first, or the _meta of a stateless request"})
		return
	}
	live, ok := s.open(w, r, id, m.ID)
	if !ok {
		return
	}
	defer live.Release()
	switch m.Kind {
	case jsonrpc.Notification:
		if m.Method == mcp.NotificationInitialized {
			if err := live.Initialized(r.Context()); err != nil {
				s.unavailable(w, r, m.ID, err)
				return
			}
		}
		live.Notify(m)
		w.WriteHeader(http.StatusAccepted)
	case jsonrpc.Response:
		live.Receive(m)
		w.WriteHeader(http.StatusAccepted)
	case jsonrpc.Request:
		if live.Busy() {
			w.Header()["Retry-After"] = []string{"1"}
			refuse(w, http.StatusTooManyRequests, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "too many requests of this session are in flight: try again when one is answered"})
			return
		}
		s.serveLegacy(w, r, live, m)
	}
}

func (s *Server) serveLegacy(w http.ResponseWriter, r *http.Request, live *legacy.Live, m *jsonrpc.Message) {
	// A client that goes away has not cancelled anything (Sending Messages, 6): the
	// handler's context has the request's values and not its end.
	ctx := context.WithoutCancel(r.Context())
	stream := &eventStream{w: w}
	buf := buffers.Get().(*[]byte)
	var out []byte
	if accepts(r.Header, "text/event-stream") {
		out = live.Serve(ctx, (*buf)[:0], m, stream)
	} else {
		out = live.Serve(ctx, (*buf)[:0], m, nil)
	}
	switch {
	case len(out) > 0:
		stream.respond(r, http.StatusOK, out)
	case !stream.upgraded(): // cancelled: there is no response, and nothing else to say
		w.WriteHeader(http.StatusAccepted)
	}
	stream.end()
	recycle(buf, out)
}

func (s *Server) initialize(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	who := principalOf(r)
	session := s.Legacy.NewSession(who)
	out := session.Serve(r.Context(), nil, m, nil)
	if session.Handshook() {
		id, err := s.Sessions.Create(r.Context(), who, addressOf(r), session.State)
		if err != nil {
			s.unavailable(w, r, m.ID, err)
			return
		}
		w.Header()[headerSession] = []string{id}
	}
	stream := &eventStream{w: w}
	stream.respond(r, http.StatusOK, out)
	stream.end()
}

// open finds the session of a request and makes it young again. When that fails
// it has answered.
func (s *Server) open(w http.ResponseWriter, r *http.Request, id string, request jsonrpc.ID) (*legacy.Live, bool) {
	if v := first(r.Header, modern.HeaderVersion); v != "" && (!mcp.Revision(v).Known() || mcp.Revision(v).Modern()) {
		refuse(w, http.StatusBadRequest, request, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the MCP-Protocol-Version header " + quote(v) + " names no revision with sessions"})
		return nil, false
	}
	live, err := s.Sessions.Open(r.Context(), principalOf(r), id)
	if err == nil {
		if err = live.Touch(r.Context()); err == nil {
			return live, true
		}
		live.Release()
	}
	s.unavailable(w, r, request, err)
	return nil, false
}

// unavailable answers for a session that cannot be had.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, request jsonrpc.ID, err error) {
	switch {
	case errors.Is(err, legacy.ErrNoSession):
		refuse(w, http.StatusNotFound, request, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "no such session, or no longer: send initialize without Mcp-Session-Id"})
	case errors.Is(err, legacy.ErrTooManySessions):
		w.Header()["Retry-After"] = []string{"60"}
		refuse(w, http.StatusServiceUnavailable, request, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many sessions: end one with DELETE, or try again later"})
	default:
		s.Logger.ErrorContext(r.Context(), "session store failed", "error", err)
		refuse(w, http.StatusServiceUnavailable, request, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "sessions are unavailable"})
	}
}

// get opens a stream on which the server speaks by itself: a session's standalone
// stream, or the pair of 2024-11-05, whose clients know no session and no version
// header.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	version := mcp.Revision(first(r.Header, modern.HeaderVersion))
	id := first(r.Header, headerSession)
	switch {
	case version.Modern():
		notAllowed(w, "POST")
	case !accepts(r.Header, "text/event-stream"):
		refuse(w, http.StatusNotAcceptable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "send Accept: text/event-stream"})
	case id != "":
		s.listen(w, r, id)
	case version == "" || version == mcp.V20241105:
		s.openPair(w, r)
	default:
		refuse(w, http.StatusBadRequest, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the Mcp-Session-Id header is missing"})
	}
}

// listen is a session's standalone stream. It needs no goroutine but the request's.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, id string) {
	live, ok := s.open(w, r, id, jsonrpc.ID{})
	if !ok {
		return
	}
	defer live.Release()
	taken := live.Stream()
	stream := &eventStream{w: w}
	stream.comment(r.Context())
	defer stream.end()
	tick := time.NewTicker(s.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if live.Touch(r.Context()) != nil || stream.comment(r.Context()) != nil {
				return
			}
		case <-taken:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// comment writes a line that carries no event, which shows whoever is in between
// that the stream is alive.
func (e *eventStream) comment(ctx context.Context) error {
	return e.write(ctx, func(dst []byte) []byte { return append(dst, ":\n\n"...) })
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	id := first(r.Header, headerSession)
	switch {
	case mcp.Revision(first(r.Header, modern.HeaderVersion)).Modern():
		notAllowed(w, "POST")
		return
	case id == "":
		refuse(w, http.StatusBadRequest, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the Mcp-Session-Id header is missing"})
		return
	}
	live, ok := s.open(w, r, id, jsonrpc.ID{})
	if !ok {
		return
	}
	live.Release()
	if err := s.Sessions.Delete(r.Context(), principalOf(r), id); err != nil {
		s.unavailable(w, r, jsonrpc.ID{}, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
