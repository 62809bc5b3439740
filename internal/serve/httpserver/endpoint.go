package httpserver

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/httpguard"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	accept := readAccept(r.Header)
	admitted, ok := s.admit(w, r, accept)
	if !ok {
		boundUnread(w, r)
		return
	}
	r = admitted
	if s.Headers != nil {
		r = s.withHeaders(r)
	}
	if r.Method == http.MethodPost {
		s.post(w, r, accept)
		return
	}
	x := &response{stream: eventStream{w: w}, accept: accept}
	defer s.calls.leave(&x.tracked)
	switch id, ok := s.receiveWithoutMessage(w, r, x); {
	case !ok:
	case r.Method == http.MethodGet:
		s.get(w, r, x, id)
	default:
		s.delete(w, r, id)
	}
}

// receiveWithoutMessage is receive for GET and DELETE. It returns the id of the session, or "" if the request names
// none. Its variables are not on the stack while the goroutine of a GET request waits below ServeHTTP; see getStream.
func (s *Server) receiveWithoutMessage(w http.ResponseWriter, r *http.Request, x *response) (id string, ok bool) {
	if _, ok := s.receive(w, r, x); !ok || !s.authorize(w, r, jsonrpc.ID{}) {
		return "", false
	}
	class := revision.Classify(revision.Input{HTTP: true, Header: r.Header[httpcodec.HeaderVersion]})
	if class.Era == revision.Modern { // which has POST only
		rejectMethod(w, "POST")
		return "", false
	}
	return sessionOf(w, r, class, jsonrpc.ID{})
}

// admit checks the headers of a request, including its access token. It returns the request
// to serve. If the request must not be served, admit answers it and reports false.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, accept accepted) (*http.Request, bool) {
	origin := r.Header["Origin"]
	preflight := r.Method == http.MethodOptions && origin != nil && r.Header["Access-Control-Request-Method"] != nil
	status, err := s.Guard.Check(r)
	if err == nil && preflight && !slices.Contains(s.Guard.Origins, origin[0]) { // of this machine
		status, err = http.StatusForbidden, httpguard.ForbiddenOrigin(origin[0])
	}
	if err != nil {
		s.rejections.Log(r.Context(), s.Logger, slog.LevelWarn, "request rejected", slog.String("reason", err.Error()),
			slog.Int("status", status))
		reject(w, status, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
		return nil, false
	}
	if len(s.Guard.Origins) > 0 && s.addCORSHeaders(w, r, preflight) {
		return nil, false
	}
	r, ok := s.authenticate(w, r)
	switch {
	case !ok:
	case r.Method == http.MethodGet, r.Method == http.MethodDelete:
		return r, true
	case r.Method != http.MethodPost:
		rejectMethod(w, "POST, GET, DELETE")
	case accept == accepted{}:
		reject(w, http.StatusNotAcceptable, jsonrpc.ID{},
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: "the Accept header must allow application/json or text/event-stream"})
	case !isUnencoded(r.Header["Content-Encoding"]):
		w.Header()["Accept-Encoding"] = []string{"identity"} // RFC 9110, section 15.5.16
		reject(w, http.StatusUnsupportedMediaType, jsonrpc.ID{},
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: "the body must have no content coding: send it without the Content-Encoding header"})
	default:
		return r, true
	}
	return nil, false
}

// receive reads the body of a request and counts the request as in flight, so that Shutdown waits for it. If it fails,
// receive answers the request and reports false. The caller must call leave in any case.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, x *response) (body []byte, ok bool) {
	s.calls.begin(&x.tracked, &x.stream, s.KeepAlive)
	body, err := httpcodec.AppendBody(nil, r.Body, r.ContentLength, s.MaxBody, httpcodec.MaxInitialRead)
	// Count the request after reading: a client that sends its body slowly must neither
	// use up the limit nor delay Shutdown.
	switch entered := s.calls.enter(&x.tracked); {
	case errors.Is(err, httpcodec.ErrBodyTooLarge):
		closeUnread(w)
		reject(w, http.StatusRequestEntityTooLarge, jsonrpc.ID{},
			rpc.MessageTooLarge(s.MaxBody))
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header()["Connection"] = []string{"close"}
		reject(w, http.StatusRequestTimeout, jsonrpc.ID{},
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body did not arrive in time"})
	case err != nil:
		closeUnread(w)
		reject(w, http.StatusBadRequest, jsonrpc.ID{},
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "cannot read the whole body"})
	case entered == errTooManyRequests:
		s.rejectOverload(w, r, http.StatusServiceUnavailable, jsonrpc.ID{}, errTooManyRequests)
	case entered != nil:
		setRetryAfter(w, time.Second)
		reject(w, http.StatusServiceUnavailable, jsonrpc.ID{}, rpc.ErrShuttingDown)
	default:
		return body, true
	}
	return nil, false
}

// post serves a POST request by the era and the kind of its message.
func (s *Server) post(w http.ResponseWriter, r *http.Request, accept accepted) {
	x := &exchange{response: response{stream: eventStream{w: w}, accept: accept}}
	defer s.calls.leave(&x.tracked)
	body, ok := s.receive(w, r, &x.response)
	if !ok {
		return
	}
	m, isBatch, inSession := &x.message, jsonrpc.IsBatch(body), r.Header[httpcodec.HeaderSession] != nil
	in := revision.Input{HTTP: true, Header: r.Header[httpcodec.HeaderVersion], Session: inSession}
	if !isBatch {
		err := m.Parse(body, s.Limits)
		if (err != nil || m.Kind != jsonrpc.Request) && !s.authorize(w, r, jsonrpc.ID{}) {
			return
		}
		if err != nil {
			if m.Kind == jsonrpc.Response {
				s.unusable(r, m, err)
			}
			rejectMalformed(w, m, err, revision.Classify(in).Revision)
			return
		}
		in.Message = m
	}
	class := revision.Classify(in)
	pair := ""
	if !inSession && r.URL.RawQuery != "" {
		pair = r.URL.Query().Get(pairParameter)
	}
	switch {
	case isBatch && (class.Era == revision.Modern || !inSession):
		s.rejectBatch(w, r, body)
	case isBatch:
		s.postBatch(w, r, x, class, body)
	case class.Era == revision.Modern:
		s.postModern(w, r, x, class)
	case pair != "":
		s.postToPair(w, r, pair, m)
	default:
		s.postLegacy(w, r, x, class)
	}
}

// rejectMalformed rejects a body that is not a valid message. The error has the id of the message unless that is a
// malformed response, whose id belongs to a request of this server. If the id is unknown, the error has id null in
// revisions before 2025-11-25 and none in later ones; declared is the revision of the header.
func rejectMalformed(w http.ResponseWriter, m *jsonrpc.Message, err error, declared mcp.Revision) {
	var invalid *jsonrpc.InvalidMessageError
	if !errors.As(err, &invalid) {
		invalid = &jsonrpc.InvalidMessageError{Code: jsonrpc.CodeInvalidRequest, Reason: err.Error(), Offset: -1}
	}
	id := m.ID
	if m.Kind == jsonrpc.Response {
		id = jsonrpc.ID{}
	}
	nullID := id.IsZero() && revision.NullErrorIDs.In(declared)
	reply(w, http.StatusBadRequest, jsonrpc.AppendError(nil, id, invalid.Wire(), nullID))
}

// unusable passes a malformed response to the session of r, if it has one, so that the
// call that waits for the response fails.
func (s *Server) unusable(r *http.Request, m *jsonrpc.Message, reason error) {
	if id := httpcodec.First(r.Header, httpcodec.HeaderSession); id != "" {
		if live, err := s.Sessions.Use(r.Context(), principalOf(r), id, false); err == nil {
			live.ReceiveInvalid(m, reason)
			live.Release()
		}
		return
	}
	if x := s.pairs.get(r.URL.Query().Get(pairParameter), principalOf(r)); x != nil {
		x.session.ReceiveInvalid(m, reason)
	}
}

// get opens a stream for the server's own messages: the standalone stream of a session,
// or the event stream of the HTTP+SSE pair of 2024-11-05 if the request names no session.
// Some clients of the pair send the version header, with any legacy revision.
func (s *Server) get(w http.ResponseWriter, r *http.Request, x *response, id string) {
	switch {
	case !x.accept.events:
		reject(w, http.StatusNotAcceptable, jsonrpc.ID{}, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidRequest, Message: "the Accept header must allow text/event-stream",
		})
	case !s.flushes(w):
		reject(w, http.StatusMethodNotAllowed, jsonrpc.ID{}, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidRequest, Message: "the server cannot send event streams here: its log says why",
		})
	case id != "":
		s.getStream(w, r, x, id)
	default:
		s.openPair(w, r, x)
	}
}

// delete ends a session and its streams.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, id string) {
	if id == "" {
		rejectInvalid(w, jsonrpc.ID{}, missingSession)
		return
	}
	live, err := s.Sessions.Use(r.Context(), principalOf(r), id, false)
	if err == nil {
		defer live.Release()
		err = s.Sessions.Delete(r.Context(), principalOf(r), id)
	}
	if err != nil {
		s.rejectSession(w, r, jsonrpc.ID{}, err)
		return
	}
	s.Streams.endSession(live.Key(), revision.ResumableStreams.In(live.Revision))
	respondEmpty(w, http.StatusNoContent)
}

// rejectBatch rejects a batch outside of a session.
func (s *Server) rejectBatch(w http.ResponseWriter, r *http.Request, body []byte) {
	fault := legacy.NoBatch(body, s.Limits)
	if x := s.pairs.get(r.URL.Query().Get(pairParameter), principalOf(r)); x != nil {
		fault = x.session.RejectBatch(body, s.Limits)
	}
	reject(w, http.StatusBadRequest, jsonrpc.ID{}, fault)
}
