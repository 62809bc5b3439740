package httpwire

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
)

const headerSession = "Mcp-Session-Id"

// Server is the HTTP handler of one endpoint, for all revisions. Its fields must be set
// before it serves and not change afterwards. Its methods are safe for concurrent use.
type Server struct {
	Modern   *modern.Server
	Legacy   *legacy.Server
	Sessions *legacy.Sessions
	Streams  *Streams // of Sessions
	Guard    Guard
	Auth     *auth.ProtectedResource // nil: requests need no token and have principal Anonymous
	Logger   *slog.Logger
	Limits   jsonrpc.Limits

	MaxBody   int64         // limit of the body of a request, in bytes
	KeepAlive time.Duration // interval between keep-alive comments on idle event streams
	Ping      bool          // ping clients on standalone streams instead, at the same interval

	// PerOwner is the limit of stateless requests in flight per principal, PerAddress
	// that of anonymous ones per address. 0 means no limit.
	PerOwner, PerAddress int

	calls      tracker
	pairs      pairs
	listens    limiter
	stateless  limiter
	rejections rejectionLog
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if no := s.Guard.check(r); no != nil {
		s.rejections.log(r.Context(), s.Logger, slog.LevelWarn, "request rejected", slog.String("reason", no.reason), slog.Int("status", no.status))
		reject(w, no.status, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: no.reason})
		return
	}
	if s.Guard.addCORSHeaders(w, r) {
		return
	}
	if s.Auth != nil {
		var ok bool
		if r, ok = s.authenticate(w, r); !ok {
			return
		}
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.track(w, r, s.requireScopes(s.get))
	case http.MethodDelete:
		s.track(w, r, s.requireScopes(s.delete))
	default:
		rejectMethod(w, "POST, GET, DELETE")
	}
}

// track serves a request that Shutdown waits for. It rejects the request if too many are
// in flight or the server shuts down.
func (s *Server) track(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if !s.calls.enter() {
		w.Header()["Retry-After"] = []string{"1"}
		reject(w, http.StatusServiceUnavailable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server is shutting down or has too many requests in flight: retry later"})
		return
	}
	defer s.calls.leave()
	serve(w, r)
}

// Shutdown rejects new requests, ends the long-lived streams and waits for the requests in
// flight. If ctx ends first, Shutdown cancels these requests and returns ctx.Err()
// without waiting for them.
func (s *Server) Shutdown(ctx context.Context) error {
	idle := s.calls.close()
	s.Sessions.CloseStreams()
	s.Streams.close()
	s.pairs.beginDrain()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		s.calls.cancelAll()
		return ctx.Err()
	}
}

// classify returns the era of a request. m is nil unless the body is a single message.
func classify(r *http.Request, m *jsonrpc.Message) revision.Class {
	return revision.Classify(revision.Input{
		Message: m, HTTP: true, Header: r.Header[headerVersion], Session: r.Header[headerSession] != nil,
	})
}

// post reads and serves a POST request.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header, "application/json") && !accepts(r.Header, "text/event-stream") {
		reject(w, http.StatusNotAcceptable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the Accept header must allow application/json or text/event-stream"})
		return
	}
	if !isUnencoded(r.Header["Content-Encoding"]) {
		w.Header()["Accept-Encoding"] = []string{"identity"} // RFC 9110, section 15.5.16
		reject(w, http.StatusUnsupportedMediaType, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body must have no content coding: send it without the Content-Encoding header"})
		return
	}
	// Track the request after reading: a client that sends its body slowly must neither
	// use up the limit nor delay Shutdown.
	body, err := s.body(w, r)
	switch {
	case errors.Is(err, errTooLarge):
		w.Header()["Connection"] = []string{"close"} // do not read the rest
		reject(w, http.StatusRequestEntityTooLarge, jsonrpc.ID{}, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "message too large: the limit is %d bytes", s.MaxBody))
	case err != nil:
		reject(w, http.StatusBadRequest, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "cannot read the whole body"})
	default:
		s.track(w, r, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, body) })
	}
}

// body reads the whole body into a new buffer, which parsed messages refer to.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n < 0 || n > maxInitialRead {
		rc := http.NewResponseController(w)
		if rc.SetReadDeadline(time.Now().Add(readTimeout)) == nil {
			defer rc.SetReadDeadline(readDeadlineOf(r.Context()))
		}
	}
	return readBody(r.Body, r.ContentLength, s.MaxBody)
}

// readTimeout is the time-out for reading a body of more than maxInitialRead bytes or of
// unknown length.
const readTimeout = time.Minute

// readDeadlineOf returns the read deadline that the http.Server of the request asks for.
// It is zero if there is none.
func readDeadlineOf(ctx context.Context) time.Time {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return time.Now().Add(s.ReadTimeout)
	}
	return time.Time{}
}

// dispatch serves the body of a POST request by era and kind.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, body []byte) {
	if jsonrpc.IsBatch(body) {
		s.postBatch(w, r, body)
		return
	}
	x := new(exchange)
	m := &x.message
	if err := m.Parse(body, s.Limits); err != nil {
		if m.Kind == jsonrpc.Response {
			if s.Auth != nil && !s.checkScopes(w, r) {
				return
			}
			s.unusable(r, m, err)
		}
		s.rejectMalformed(w, r, m, err)
		return
	}
	if s.Auth != nil && m.Kind != jsonrpc.Request && !s.checkScopes(w, r) {
		return
	}
	class := classify(r, m)
	if class.Era == revision.Modern {
		s.postModern(w, r, x, class)
		return
	}
	if r.URL.RawQuery != "" && r.Header[headerSession] == nil {
		if id := r.URL.Query().Get(pairParameter); id != "" {
			s.postToPair(w, r, id, m)
			return
		}
	}
	s.postLegacy(w, r, x, class)
}

// rejectMalformed rejects a body that is not a valid message. The error has the id of the
// message unless that is a malformed response, whose id belongs to a request of this
// server. If the id is unknown, the error has id null in revisions before 2025-11-25 and
// none in later ones.
func (s *Server) rejectMalformed(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, err error) {
	var invalid *jsonrpc.InvalidMessageError
	if !errors.As(err, &invalid) {
		invalid = &jsonrpc.InvalidMessageError{Code: jsonrpc.CodeInvalidRequest, Reason: err.Error(), Offset: -1}
	}
	id := m.ID
	if m.Kind == jsonrpc.Response {
		id = jsonrpc.ID{}
	}
	nullID := id.IsZero() && revision.NullErrorIDs.In(classify(r, nil).Revision)
	reply(w, r, http.StatusBadRequest, jsonrpc.AppendError(nil, id, invalid.Wire(), nullID))
}

// unusable passes a malformed response to the session of r, if it has one, so that the
// call that waits for the response fails.
func (s *Server) unusable(r *http.Request, m *jsonrpc.Message, reason error) {
	if id := first(r.Header, headerSession); id != "" {
		if live, err := s.Sessions.Open(r.Context(), s.principalOf(r), id); err == nil {
			live.ReceiveInvalid(m, reason)
			live.Release()
		}
		return
	}
	if x := s.pairs.get(r.URL.Query().Get(pairParameter), s.principalOf(r)); x != nil {
		x.session.ReceiveInvalid(m, reason)
	}
}

// first returns the first value of a header, or "".
func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// addressOf returns the address that identifies an anonymous client. For IPv6 it is the
// /64 network, since a client can use any address in it.
func addressOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if at.Addr().Is4() { // has only one text form, so no allocation is needed
		return r.RemoteAddr[:strings.LastIndexByte(r.RemoteAddr, ':')]
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() {
		if network, err := a.Prefix(64); err == nil {
			return network.String()
		}
	}
	return a.String()
}

var (
	errShutdown     = errors.New("server shut down")
	errStreamClosed = errors.New("event stream closed")
)
