package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/httpguard"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Server is the HTTP handler of one endpoint, for all revisions. Its fields must be set
// before it serves and not change afterwards. Its methods are safe for concurrent use.
type Server struct {
	Modern   *modern.Server // without Inflight
	Legacy   *legacy.Server
	Sessions *legacy.Sessions
	Streams  *Streams // of Sessions
	Guard    httpguard.Guard
	Auth     *auth.ProtectedResource // nil: requests need no token
	Logger   *slog.Logger
	Limits   jsonrpc.Limits

	MaxBody   int64         // limit of the body of a request, in bytes
	KeepAlive time.Duration // interval between keep-alive comments on idle event streams
	Ping      bool          // ping clients on standalone streams instead, at the same interval

	// PerOwner is the limit of stateless requests in flight per principal, PerAddress
	// that of anonymous ones per address. 0 means no limit.
	PerOwner, PerAddress int

	// Forward sends a message of a client to the other replicas, one of which may serve the request to which the
	// message belongs. They call Deliver. Session is the key of the session. Forward returns nil when the Bus has
	// taken the message. That does not mean that a replica has it: a message is delivered at most once, and is lost
	// without a report if its request has ended or its replica does not receive it. Forward is nil if the server has
	// no other replicas.
	Forward func(ctx context.Context, session string, message []byte) error

	unflushable sync.Once // see flushes

	calls      tracker
	pairs      pairs
	listens    limiter
	stateless  limiter
	rejections loglimit.Limiter
	overloads  loglimit.Limiter
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	accept := readAccept(r.Header)
	admitted, ok := s.admit(w, r, accept)
	if !ok {
		boundUnread(w, r)
		return
	}
	r = admitted
	if r.Method == http.MethodPost {
		s.post(w, r, accept)
		return
	}
	x := &response{stream: eventStream{w: w}, accept: accept}
	defer s.calls.leave(&x.tracked)
	if _, ok := s.receive(w, r, x); !ok || !s.authorize(w, r, jsonrpc.ID{}) {
		return
	}
	class := classify(r, nil)
	if class.Era == revision.Modern { // which has POST only
		rejectMethod(w, "POST")
		return
	}
	switch id, ok := sessionOf(w, r, class, jsonrpc.ID{}); {
	case !ok:
	case r.Method == http.MethodGet:
		s.get(w, r, x, id)
	default:
		s.delete(w, r, id)
	}
}

// admit checks the headers of a request, including its access token. It returns the request
// to serve. If the request must not be served, admit answers it and reports false.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, accept accepted) (*http.Request, bool) {
	status, err := s.Guard.Check(r)
	if err == nil && isPreflight(r) && !slices.Contains(s.Guard.Origins, r.Header["Origin"][0]) { // of this machine
		status, err = http.StatusForbidden, httpguard.ForbiddenOrigin(r.Header["Origin"][0])
	}
	if err != nil {
		s.rejections.Log(r.Context(), s.Logger, slog.LevelWarn, "request rejected", slog.String("reason", err.Error()),
			slog.Int("status", status))
		reject(w, status, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
		return nil, false
	}
	if len(s.Guard.Origins) > 0 && addCORSHeaders(s.Guard.Origins, w, r) {
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

// Shutdown rejects new requests, ends the long-lived streams and waits for the requests in flight. If ctx ends first,
// Shutdown cancels these requests and returns ctx.Err() without waiting for them.
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
		Message: m, HTTP: true, Header: r.Header[httpcodec.HeaderVersion],
		Session: r.Header[httpcodec.HeaderSession] != nil,
	})
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
	var class revision.Class
	if isBatch {
		class = classify(r, nil)
	} else {
		err := m.Parse(body, s.Limits)
		if (err != nil || m.Kind != jsonrpc.Request) && !s.authorize(w, r, jsonrpc.ID{}) {
			return
		}
		if err != nil {
			if m.Kind == jsonrpc.Response {
				s.unusable(r, m, err)
			}
			s.rejectMalformed(w, r, m, err)
			return
		}
		class = classify(r, m)
	}
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
// revisions before 2025-11-25 and none in later ones.
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
	reply(w, http.StatusBadRequest, jsonrpc.AppendError(nil, id, invalid.Wire(), nullID))
}

// unusable passes a malformed response to the session of r, if it has one, so that the
// call that waits for the response fails.
func (s *Server) unusable(r *http.Request, m *jsonrpc.Message, reason error) {
	if id := httpcodec.First(r.Header, httpcodec.HeaderSession); id != "" {
		if live, err := s.Sessions.Open(r.Context(), principalOf(r), id); err == nil {
			live.ReceiveInvalid(m, reason)
			live.Release()
		}
		return
	}
	if x := s.pairs.get(r.URL.Query().Get(pairParameter), principalOf(r)); x != nil {
		x.session.ReceiveInvalid(m, reason)
	}
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
