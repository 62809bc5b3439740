package httpwire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

const headerSession = "Mcp-Session-Id"

// Server is one endpoint, in every revision. Its fields are set before it serves.
type Server struct {
	Modern   *modern.Server
	Legacy   *legacy.Server
	Sessions *legacy.Sessions
	Guard    Guard
	Logger   *slog.Logger
	Limits   jsonrpc.Limits

	MaxBody   int64         // bytes of one request's body
	KeepAlive time.Duration // between comments on event streams that would be silent

	calls tracker
	pairs pairs
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if no := s.Guard.check(r); no != nil {
		s.Logger.WarnContext(r.Context(), "request refused", "reason", no.reason, "status", no.status)
		refuse(w, no.status, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: no.reason})
		return
	}
	done, ok := s.calls.enter()
	if !ok {
		w.Header()["Retry-After"] = []string{"1"}
		refuse(w, http.StatusServiceUnavailable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server is shutting down or has too many requests in flight: try again later"})
		return
	}
	defer done()
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		notAllowed(w, "POST, GET, DELETE")
	}
}

// Shutdown refuses new requests, ends the streams that would stay open and waits
// for the requests in flight. When ctx ends first, it cancels them, waits no
// longer and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	idle := s.calls.close()
	s.Sessions.CloseStreams()
	s.pairs.closeAll()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		s.calls.cancelAll()
		s.Sessions.CancelAll()
		return ctx.Err()
	}
}

// Modern traffic is told from older traffic by what it says of itself. A request
// is of the stateless era if its body says so, or if its version header names no
// revision that had sessions: a broken modern request is then told how it is
// broken. Everything else belongs to a session.
func isModern(h http.Header, m *jsonrpc.Message) bool {
	if _, ok := revision.RequestVersion(m); ok {
		return true
	}
	version := mcp.Revision(first(h, modern.HeaderVersion))
	if version == "" || version.Known() && !version.Modern() {
		return false
	}
	return version.Known() || h[headerSession] == nil
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if !accepts(r.Header, "application/json") && !accepts(r.Header, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "send Accept: application/json, text/event-stream"})
		return
	}
	body, err := s.body(w, r)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			refuse(w, http.StatusRequestEntityTooLarge, jsonrpc.ID{}, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the message is larger than %d bytes", tooLarge.Limit))
			return
		}
		refuse(w, http.StatusBadRequest, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the body did not arrive whole"})
		return
	}
	m := new(jsonrpc.Message)
	if *m, err = jsonrpc.Parse(body, s.Limits); err != nil {
		var invalid *jsonrpc.InvalidMessageError
		errors.As(err, &invalid)
		s.malformed(w, r, m.ID, invalid)
		return
	}
	if r.URL.RawQuery != "" {
		if id := r.URL.Query().Get(pairParameter); id != "" {
			s.postToPair(w, r, id, m)
			return
		}
	}
	if isModern(r.Header, m) {
		s.postModern(w, r, m)
	} else {
		s.postLegacy(w, r, m)
	}
}

// body reads the whole body, into memory of its own: what is parsed from it stays.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, s.MaxBody)
	if n := r.ContentLength; 0 <= n && n <= s.MaxBody {
		body := make([]byte, n)
		_, err := io.ReadFull(limited, body)
		return body, err
	}
	return io.ReadAll(limited)
}

// malformed answers what is not a message. A session's peer of before 2025-11-25
// wants an id of null where none could be read; the schemas since want none.
func (s *Server) malformed(w http.ResponseWriter, r *http.Request, id jsonrpc.ID, invalid *jsonrpc.InvalidMessageError) {
	version := mcp.Revision(first(r.Header, modern.HeaderVersion))
	nullID := id.IsZero() && version < mcp.V20251125
	reply(w, http.StatusBadRequest, jsonrpc.AppendError(nil, id, invalid.Wire(), nullID))
}

func (s *Server) postModern(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	switch m.Kind {
	case jsonrpc.Notification: // none is defined for HTTP; closing the stream cancels
		w.WriteHeader(http.StatusAccepted)
		return
	case jsonrpc.Response:
		refuse(w, http.StatusBadRequest, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this revision has no responses from clients"})
		return
	}
	c, fault := s.Modern.Open(m, principalOf(r), r.Header)
	if fault != nil {
		refuse(w, max(modern.HTTPStatus(fault.Code), http.StatusBadRequest), m.ID, fault)
		return
	}
	// The end of the connection is the cancellation of the request.
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer s.calls.onCancel(cancel)()
	c.Cancel = cancel
	stream := &eventStream{w: w, broken: cancel}
	if accepts(r.Header, "text/event-stream") {
		c.Stream = stream
	}
	buf := buffers.Get().(*[]byte)
	out, reported := s.Modern.Engine.AppendReply(ctx, (*buf)[:0], c, s.Modern.Identity)
	if cause := context.Cause(ctx); cause == nil || cause == call.ErrInputRequired {
		status := http.StatusOK
		if reported != nil {
			status = modern.HTTPStatus(reported.Code)
		}
		stream.respond(r, status, out)
	}
	stream.end()
	recycle(buf, out)
}

// respond sends the response: as JSON, unless messages came before it or the
// client wants an event stream.
func (e *eventStream) respond(r *http.Request, status int, out []byte) {
	if e.upgraded() || !accepts(r.Header, "application/json") {
		_ = e.write(r.Context(), func(dst []byte) []byte { return appendEvent(dst, "", out) })
		return
	}
	reply(e.w, status, out)
}

func principalOf(*http.Request) principal.Principal { return principal.Anonymous }

var jsonType = []string{"application/json"}

func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(body) > 2048 { // below, net/http counts by itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func refuse(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	reply(w, status, jsonrpc.AppendError(nil, id, e, false))
}

func notAllowed(w http.ResponseWriter, allow string) {
	w.Header()["Allow"] = []string{allow}
	refuse(w, http.StatusMethodNotAllowed, jsonrpc.ID{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "method not allowed here: use " + allow})
}

func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// addressOf is the address that counts as the owner of what nobody authenticated has.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

var (
	errShutdown     = errors.New("the server shuts down")
	errStreamClosed = errors.New("the event stream was closed")
)
