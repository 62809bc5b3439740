package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// sessionOf returns the session id of a legacy request, or "" if it has none. If a header is wrong, sessionOf answers
// the request and reports false. The version header is optional here, since the session knows its revision, but must
// name a legacy revision (2025-11-25, basic/transports, Protocol Version Header).
func sessionOf(w http.ResponseWriter, r *http.Request, class revision.Class, request jsonrpc.ID) (id string, ok bool) {
	switch {
	case len(r.Header[httpcodec.HeaderSession]) > 1:
		return "", rejectInvalid(w, request, "the Mcp-Session-Id header must occur once")
	case class.Fault != nil && class.Fault.Kind == revision.HeaderRepeated:
		return "", rejectInvalid(w, request, "the MCP-Protocol-Version header must occur once")
	case class.Fault != nil:
		all := slices.DeleteFunc(revision.Supported(), func(r string) bool { return mcp.Revision(r).Modern() })
		return "", rejectInvalid(w, request, fmt.Sprintf("unsupported protocol version %.100q in the "+
			"MCP-Protocol-Version header: sessions have one of %s",
			httpcodec.First(r.Header, httpcodec.HeaderVersion), strings.Join(all, ", ")))
	}
	return httpcodec.First(r.Header, httpcodec.HeaderSession), true
}

const missingSession = "the Mcp-Session-Id header is missing: send initialize first"

// postLegacy serves one message of a session (2025-11-25, basic/transports, Sending Messages to the Server).
func (s *Server) postLegacy(w http.ResponseWriter, r *http.Request, x *exchange, class revision.Class) {
	m := &x.message
	request := m.ID
	if m.Kind == jsonrpc.Response { // its id belongs to a request of this server
		request = jsonrpc.ID{}
	}
	id, ok := sessionOf(w, r, class, request)
	if !ok {
		return
	}
	if id == "" {
		if m.Kind == jsonrpc.Request && m.Method == mcp.MethodInitialize {
			s.initialize(w, r, x)
			return
		}
		rejectInvalid(w, request, missingSession+", or send the _meta of a stateless request")
		return
	}
	if m.Kind != jsonrpc.Request { // a client that disconnects has sent the message all the same
		r = r.WithContext(context.WithoutCancel(r.Context()))
	}
	var live *legacy.StoredSession
	var err error
	if m.Kind == jsonrpc.Notification && m.Method == mcp.NotificationInitialized {
		live, err = s.Sessions.MarkReady(r.Context(), principalOf(r), id)
	} else {
		live, err = s.Sessions.Use(r.Context(), principalOf(r), id, true)
	}
	if err != nil {
		s.rejectSession(w, r, request, err)
		return
	}
	defer live.Release()
	switch m.Kind {
	case jsonrpc.Notification:
		if !live.ReceiveNotification(m) && s.forward(r.Context(), live, m) != nil {
			rejectUndelivered(w)
			return
		}
		live.ServeNotification(r.Context(), rpc.Sender{}, m, class)
		respondEmpty(w, http.StatusAccepted)
	case jsonrpc.Response:
		if !live.ReceiveResponse(m) && s.forward(r.Context(), live, m) != nil {
			rejectUndelivered(w)
			return
		}
		respondEmpty(w, http.StatusAccepted)
	case jsonrpc.Request:
		x.answer.live, x.context.Context = live, s.calls.lifetime()
		s.serve(&x.context, r, x, live.Session, rpc.Sender{}, class)
	}
}

// forward passes responses and cancellations of requests that are not in flight here, and changes of roots, on to the
// other replicas. It logs its error.
func (s *Server) forward(ctx context.Context, live *legacy.StoredSession, messages ...*jsonrpc.Message) error {
	if slices.ContainsFunc(messages, func(m *jsonrpc.Message) bool { return m.Kind == jsonrpc.Response }) {
		live.RecordActivity(ctx)
	}
	if s.Forward == nil {
		return nil
	}
	for _, m := range messages {
		if err := s.Forward(ctx, live.Key(), encodeMessage(m)); err != nil {
			s.Logger.ErrorContext(ctx, "cannot pass a message on to the other replicas", "error", err)
			return err
		}
	}
	return nil
}

// encodeMessage encodes a response or a notification.
func encodeMessage(m *jsonrpc.Message) []byte {
	switch {
	case m.Kind == jsonrpc.Notification:
		return jsonrpc.AppendNotification(nil, m.Method, m.Raw)
	case m.Err != nil:
		return jsonrpc.AppendError(nil, m.ID, m.Err, false)
	}
	return jsonrpc.AppendResult(nil, m.ID, m.Raw)
}

// Deliver passes a response or a notification that Forward has sent at another replica to its
// session. For a change of roots, it returns when the handler returns.
func (s *Server) Deliver(ctx context.Context, session *legacy.Session, message []byte) {
	var m jsonrpc.Message
	switch err := m.Parse(message, s.Limits); {
	case err != nil:
	case m.Kind == jsonrpc.Response:
		session.ReceiveResponse(&m)
	case m.Kind == jsonrpc.Notification:
		if !session.ReceiveNotification(&m) && m.Method == mcp.NotificationRootsListChanged {
			session.ServeNotification(ctx, rpc.Sender{}, &m, revision.Class{})
		}
	}
}

// RefreshSession adopts the changes of another replica to a session. It ends a standalone stream that another
// replica has taken over, and all streams of a session that has ended.
func (s *Server) RefreshSession(ctx context.Context, session string) {
	err := s.Sessions.Refresh(ctx, session)
	s.Streams.endTakenOver(session)
	switch {
	case errors.Is(err, legacy.ErrNoSession):
		s.Streams.endSession(session, true)
	case err != nil && ctx.Err() == nil:
		s.Logger.ErrorContext(ctx, "cannot read a session that another replica has changed", "error", err)
	}
}

// postBatch serves a batch in a session, which only revision 2025-03-26 has (basic, Batching). The
// response is a batch too.
func (s *Server) postBatch(w http.ResponseWriter, r *http.Request, x *exchange, class revision.Class, body []byte) {
	id, ok := sessionOf(w, r, class, jsonrpc.ID{})
	if !ok {
		return
	}
	received := context.WithoutCancel(r.Context()) // as in postLegacy
	live, ok := s.use(w, r.WithContext(received), id, jsonrpc.ID{})
	if !ok {
		return
	}
	defer live.Release()
	batch, fault := live.Batch(body, s.Limits)
	if fault != nil {
		reject(w, http.StatusBadRequest, jsonrpc.ID{}, fault)
		return
	}
	if s.Auth != nil && !s.authorize(w, r, jsonrpc.ID{}, batch.Calls()...) {
		return
	}
	if batch.Notifies(mcp.NotificationInitialized) {
		if err := live.MarkReady(received); err != nil {
			s.rejectSession(w, r, jsonrpc.ID{}, err)
			return
		}
	}
	if !batch.HasRequests() {
		if s.forward(received, live, batch.Accept(received, nil)...) != nil {
			rejectUndelivered(w)
			return
		}
		batch.AppendReply(received, nil)
		respondEmpty(w, http.StatusAccepted)
		return
	}
	if !live.Inflight().Admits(batch.Requests()) {
		s.rejectOverload(w, r, http.StatusTooManyRequests, jsonrpc.ID{}, rpc.ErrTooManyInFlight)
		return
	}
	x.answer.live, x.answer.batch, x.context.Context = live, batch, s.calls.lifetime()
	stream, reply := s.open(r, x), rpc.NewBuffer()
	s.calls.watch(&x.tracked, &x.stream, stream != nil)
	x.stream.exited = true
	defer s.respond(x, stream, reply, new(outcome)) // each request of the batch has its own error
	ctx := withoutChallenge(&x.context)
	_ = s.forward(ctx, live, batch.Accept(ctx, stream)...) // the client must not send the requests again
	*reply = batch.AppendReply(ctx, *reply)
	x.stream.exited = false
}

// initialize serves the handshake of a new session.
func (s *Server) initialize(w http.ResponseWriter, r *http.Request, x *exchange) {
	m, who := &x.message, principalOf(r)
	session := s.Legacy.NewSession(who)
	reply := rpc.NewBuffer()
	x.stream.exited = true
	defer func() {
		if x.stream.exited {
			s.respond(x, s.open(r, x), reply, new(outcome))
		}
	}()
	session.Serve(r.Context(), reply, m, nil)
	x.stream.exited = false
	if session.Initialized() {
		id, err := s.Sessions.Create(r.Context(), who, addressOf(r), session.State)
		if err != nil {
			s.rejectSession(w, r, m.ID, err)
			return
		}
		w.Header()[httpcodec.HeaderSession] = []string{id}
	}
	s.respond(x, s.open(r, x), reply, new(outcome))
}

// use returns the session of a request and extends its lifetime. If it fails, use
// answers the request and reports false. The caller must release the session.
func (s *Server) use(w http.ResponseWriter, r *http.Request, id string, request jsonrpc.ID) (*legacy.StoredSession,
	bool) {
	live, err := s.Sessions.Use(r.Context(), principalOf(r), id, true)
	if err != nil {
		s.rejectSession(w, r, request, err)
		return nil, false
	}
	return live, true
}

// rejectSession rejects a request whose session cannot be opened because of err.
func (s *Server) rejectSession(w http.ResponseWriter, r *http.Request, request jsonrpc.ID, err error) {
	var overload *call.OverloadError
	switch {
	case errors.Is(err, legacy.ErrNoSession):
		reject(w, http.StatusNotFound, request,
			&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
				Message: "session not found: send initialize without Mcp-Session-Id to start a new one"})
	case errors.As(err, &overload):
		s.rejectOverload(w, r, http.StatusServiceUnavailable, request, overload)
	default:
		if r.Context().Err() == nil {
			s.Logger.ErrorContext(r.Context(), "session store failed", "error", err)
		}
		rejectStoreFailure(w, request)
	}
}
