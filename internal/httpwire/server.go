package httpwire

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
)

const headerSession = "Mcp-Session-Id"

// Server is one endpoint, in every revision. Its fields are set before it serves.
type Server struct {
	Modern   *modern.Server
	Legacy   *legacy.Server
	Sessions *legacy.Sessions
	Streams  *Streams // of these sessions
	Guard    Guard
	Auth     *auth.ProtectedResource // nil: everybody may, and is anonymous
	Logger   *slog.Logger
	Limits   jsonrpc.Limits

	MaxBody   int64         // bytes of one request's body
	KeepAlive time.Duration // between comments on event streams that would be silent
	Ping      bool          // as often, clients of sessions are asked whether they are there

	// PerOwner and PerAddress are how many stateless requests of a principal are served
	// at a time and, where nobody is authenticated, of an address. 0: no limit.
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
		s.rejections.log(r.Context(), s.Logger, slog.LevelWarn, "request refused", slog.String("reason", no.reason), slog.Int("status", no.status))
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

// track serves a request that Shutdown is to wait for, unless there are too many.
func (s *Server) track(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if !s.calls.enter() {
		w.Header()["Retry-After"] = []string{"1"}
		reject(w, http.StatusServiceUnavailable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server is shutting down or has too many requests in flight: try again later"})
		return
	}
	defer s.calls.leave()
	serve(w, r)
}

// Shutdown refuses new requests, ends the streams that would stay open and waits
// for the requests in flight. When ctx ends first, it cancels them, waits no
// longer and returns the context's error.
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

// classify decides the era of a request. Message is nil unless the body is one message.
func classify(r *http.Request, m *jsonrpc.Message) revision.Class {
	return revision.Classify(revision.Input{
		Message: m, HTTP: true, Header: r.Header[headerVersion], Session: r.Header[headerSession] != nil,
	})
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header, "application/json") && !accepts(r.Header, "text/event-stream") {
		reject(w, http.StatusNotAcceptable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "send Accept: application/json, text/event-stream"})
		return
	}
	// Not tracked yet: whoever sends a byte now and then would keep others out, and
	// Shutdown waiting.
	body, err := s.body(w, r)
	switch {
	case errors.Is(err, errTooLarge):
		w.Header()["Connection"] = []string{"close"} // the rest is not waited for
		reject(w, http.StatusRequestEntityTooLarge, jsonrpc.ID{}, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the message is larger than %d bytes", s.MaxBody))
	case err != nil:
		reject(w, http.StatusBadRequest, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body did not arrive whole"})
	default:
		s.track(w, r, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, body) })
	}
}

// body reads the whole body, into memory of its own: what is parsed from it stays.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n < 0 || n > maxInitialRead {
		rc := http.NewResponseController(w)
		if rc.SetReadDeadline(time.Now().Add(readTimeout)) == nil {
			defer rc.SetReadDeadline(readDeadlineOf(r.Context()))
		}
	}
	return readBody(r.Body, r.ContentLength, s.MaxBody)
}

// readTimeout bounds the arrival of a body that takes more than one packet or two.
const readTimeout = time.Minute

// readDeadlineOf is what the program itself wants as the deadline for reading.
func readDeadlineOf(ctx context.Context) time.Time {
	if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return time.Now().Add(s.ReadTimeout)
	}
	return time.Time{}
}

// take takes what a client has posted.
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

// malformed answers what is not a message. What was meant as a response has an id,
// but of a request of ours: it is not repeated. A session's peer of before 2025-11-25
// wants an id of null where none could be read; the schemas since want none.
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

// unusable tells the session of a request, if it has one, of what was meant as a
// response and is none: whoever waits for that response waits no longer.
func (s *Server) unusable(r *http.Request, m *jsonrpc.Message, reason error) {
	if id := first(r.Header, headerSession); id != "" {
		if live, err := s.Sessions.Open(r.Context(), s.principalOf(r), id); err == nil {
			live.Unusable(m, reason)
			live.Release()
		}
		return
	}
	if x := s.pairs.get(r.URL.Query().Get(pairParameter), s.principalOf(r)); x != nil {
		x.session.Unusable(m, reason)
	}
}

// respond sends the response, unless nobody is there any more: as JSON, unless
// messages came before it or the client wants an event stream.
func (s *Server) respond(r *http.Request, e *eventStream, status int, out []byte) {
	if e.ctx.Err() != nil {
		return
	}
	if !s.asJSON(r, e) {
		_ = e.write(e.ctx, func(dst []byte) []byte { return appendEvent(dst, "", out) })
		return
	}
	s.reply(e.w, r, status, out)
}

// plainly reports whether the response is one body of JSON, in which case nothing can
// come before it any more.
func (s *Server) asJSON(r *http.Request, e *eventStream) bool {
	return (accepts(r.Header, "application/json") || s.missingScopes(r)) && !e.claim()
}

// lacks reports whether a handler has found that the token of r does not do, which the
// status of the response says.
func (s *Server) missingScopes(r *http.Request) bool {
	return s.Auth != nil && challenge.MissingScopes(r.Context()) != nil
}

// reply sends a body of JSON, or the challenge that a handler has asked for.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	if s.missingScopes(r) {
		status = s.challenge(w, r)
	}
	reply(w, r, status, body)
}

var jsonType = []string{"application/json"}

// reply sends a body of JSON. Whoever does not read it is not waited for without end.
func reply(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(body) > 2048 { // below, net/http counts by itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	if len(body) <= largeReply {
		_, _ = w.Write(body)
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout + time.Duration(len(body)/slowestReader)*time.Second))
	_, _ = w.Write(body)
	_ = rc.SetWriteDeadline(deadlineOf(r.Context()))
}

const (
	largeReply    = 64 << 10 // bytes that a connection takes at once, more or less
	slowestReader = 32 << 10 // bytes a second that a reader of more has to take
)

func reject(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	h := w.Header()
	h["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(jsonrpc.AppendError(nil, id, e, false))
}

func rejectMethod(w http.ResponseWriter, allow string) {
	w.Header()["Allow"] = []string{allow}
	reject(w, http.StatusMethodNotAllowed, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method not allowed here: use " + allow})
}

func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// addressOf is the address that counts as the owner of what nobody authenticated
// has. Of IPv6 it is the network, in which anybody has as many addresses as they like.
func addressOf(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if at.Addr().Is4() { // written in one way only: what is there need not be written again
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
	errShutdown     = errors.New("the server shuts down")
	errStreamClosed = errors.New("the event stream was closed")
)
