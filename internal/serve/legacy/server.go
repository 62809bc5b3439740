package legacy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Server is the server side of this era. Set its fields before it serves.
type Server struct {
	Engine *rpc.Engine
	Peers  *rpc.PeerCache
	Logger *slog.Logger
	// Describe returns the result of initialize. The revision and _meta are added to it.
	Describe    func(who principal.Principal) mcp.InitializeResult
	Changes     *changes.Broadcaster // nil: there are no changes
	MaxInflight int                  // concurrent requests per session

	deferred deferredLimit
}

// Session is a session while a process uses it. A session that outlives its connections is
// restored from its State for each use, and its uses share the requests in flight.
type Session struct {
	State
	// Source identifies the session, and distinguishes anonymous callers, see call.Call. Set it before the first call.
	Source string

	server        *Server
	who           principal.Principal
	peer          call.Peer
	inflight      *rpc.Inflight
	inputRequests inputRequests
	level         logLevel
	subscriptions subscriptions
	deferred      deferredNotifications
	received      atomic.Uint64  // number of messages received
	lastPing      atomic.Int64   // the id of the last ping; 0: none
	stored        *StoredSession // nil unless the session is stored
	pings         atomic.Int32   // of the client, being served
	initialized   bool           // here, a Session needs 640 bytes with its header, a size class of the allocator
}

// NewSession returns a session that expects its handshake. For an anonymous client, set Address
// before the first message.
func (s *Server) NewSession(who principal.Principal) *Session {
	session := &Session{server: s, who: who, inflight: &rpc.Inflight{Max: s.MaxInflight}}
	session.subscriptions.session = session
	session.inputRequests.seedIDs()
	return session
}

// Resume restores a session from its state. It records requests in flight in inflight.
func (s *Server) Resume(who principal.Principal, state State, inflight *rpc.Inflight) (*Session, error) {
	peer, err := s.Peers.Decode(state.Info, state.Capabilities)
	if err != nil {
		return nil, err
	}
	session := &Session{State: state, server: s, who: who, peer: peer, inflight: inflight, initialized: true}
	session.Info, session.Capabilities, session.Subscribed = nil, nil, nil // see StoredSession.record
	session.inputRequests.seedIDs()
	session.level.set(state.LogLevel)
	session.subscriptions.session = session
	session.subscriptions.restore(&state)
	return session, nil
}

var _ rpc.Protocol = (*Session)(nil)

// Serve serves one request and appends the response to *dst, as AppendReply does. If middleware calls runtime.Goexit,
// Serve appends the response but does not return. It is safe for concurrent use after the handshake.
func (s *Session) Serve(ctx context.Context, dst *[]byte, m *jsonrpc.Message, stream rpc.Stream) {
	c, fault := s.NewCall(rpc.Sender{}, m, revision.Class{})
	if fault == nil {
		fault = s.Begin(ctx, c, stream)
	}
	if fault != nil {
		*dst = jsonrpc.AppendError(*dst, m.ID, fault, false)
		return
	}
	s.AppendReply(dst, c)
}

// NewCall implements rpc.Protocol.
func (s *Session) NewCall(_ rpc.Sender, m *jsonrpc.Message, _ revision.Class) (*rpc.Call, *jsonrpc.Error) {
	s.received.Add(1)
	switch {
	case m.Method == mcp.MethodInitialize:
		return s.initialize(m), nil
	case m.Method == mcp.MethodPing:
		return s.ping(m), nil
	case !s.initialized:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "session must be initialized: send initialize first")
	}
	c := &rpc.Call{Call: *call.New(s.describe(m)), LogLevel: s.level.get()}
	c.Subscriber, c.SessionNotifier = &s.subscriptions, s
	if meta, ok := m.Params.Get("_meta"); ok {
		if token, ok := jsonrpc.Get(meta, mcp.MetaProgressToken); ok && string(token) != "null" {
			if c.ProgressToken.UnmarshalJSON(token) != nil {
				return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "progressToken must be a string or an integer")
			}
		}
	}
	return c, nil
}

// maxPings limits the concurrent pings of a session.
const maxPings = 128

var errTooManyPings = &call.OverloadError{Limit: "concurrent pings", RetryAfter: time.Second}

// Begin implements rpc.Protocol. The handshake and pings have no place in flight: they cannot be cancelled.
func (s *Session) Begin(ctx context.Context, c *rpc.Call, stream rpc.Stream) *jsonrpc.Error {
	switch c.Method() {
	case mcp.MethodPing:
		if s.pings.Add(1) > maxPings {
			s.pings.Add(-1)
			c.Overload = errTooManyPings
			return s.server.Engine.Overloaded(ctx, c.Method(), errTooManyPings)
		}
		fallthrough
	case mcp.MethodInitialize:
		c.Bind(ctx)
		return nil
	}
	if stream != nil {
		c.Stream, c.InputRequester = stream, &s.inputRequests
	}
	return s.inflight.Accept(ctx, s.server.Engine, c)
}

// AppendReply implements rpc.Protocol.
func (s *Session) AppendReply(dst *[]byte, c *rpc.Call) (reported *jsonrpc.Error) {
	if c.Method() == mcp.MethodInitialize || c.Method() == mcp.MethodPing {
		return s.appendOwn(dst, c)
	}
	return s.server.Engine.AppendReply(dst, c)
}

// appendOwn is AppendReply for the methods of the session itself.
func (s *Session) appendOwn(dst *[]byte, c *rpc.Call) (reported *jsonrpc.Error) {
	served := false
	defer func() { // also if middleware calls runtime.Goexit
		if c.Method() == mcp.MethodInitialize {
			s.begin(served)
		} else {
			s.pings.Add(-1)
		}
	}()
	reported = s.server.Engine.AppendReply(dst, c)
	served = reported == nil
	return reported
}

// InOrder implements rpc.Protocol: the handshake decides how to read the next message.
func (s *Session) InOrder(m *jsonrpc.Message) bool {
	return !s.initialized || m.Method == mcp.MethodInitialize
}

// ReceiveNotification processes a notification of the protocol and ignores others. It reports false for the
// cancellation of a request that is not in flight, and for a change of roots, which concerns other replicas, too.
func (s *Session) ReceiveNotification(m *jsonrpc.Message) (found bool) {
	s.received.Add(1)
	switch m.Method {
	case mcp.NotificationCancelled:
		return s.inflight.Cancel(revision.CancelledID(m), call.ErrCancelled)
	case mcp.NotificationInitialized:
		if s.initialized {
			s.subscriptions.activate(s.server.listFilter(s.who))
		}
	case mcp.NotificationTaskStatus:
		s.inputRequests.tasks.Receive(m)
	case mcp.NotificationRootsListChanged:
		return !s.server.Engine.AcceptsNotification(m.Method, s.Revision)
	}
	return true
}

// ServeNotification implements rpc.Protocol. Call it after ReceiveNotification.
func (s *Session) ServeNotification(ctx context.Context, _ rpc.Sender, m *jsonrpc.Message, _ revision.Class) {
	if !s.initialized || !s.server.Engine.AcceptsNotification(m.Method, s.Revision) {
		return
	}
	s.server.Engine.ServeNotification(ctx, &rpc.Call{Call: *call.New(s.describe(m)), SessionNotifier: s})
}

// describe returns the description of the call that m makes in the session.
func (s *Session) describe(m *jsonrpc.Message) call.Description {
	return call.Description{
		Method: m.Method, ID: m.ID, Params: &m.Params,
		Revision: s.Revision, Peer: s.peer, Principal: s.who, Source: s.Source,
	}
}

// ReceiveResponse delivers the client's response to an input request or a ping. It reports
// whether one was waiting for it.
func (s *Session) ReceiveResponse(m *jsonrpc.Message) (asked bool) {
	s.received.Add(1)
	if s.inputRequests.receive(m) || s.isPong(m) {
		return true
	}
	s.server.Logger.Debug("ignoring a response: no request is waiting for it", "id", m.ID)
	return false
}

// ReceiveInvalid delivers a malformed response, and reports whether an input request was waiting for it.
func (s *Session) ReceiveInvalid(m *jsonrpc.Message, err error) bool {
	s.received.Add(1)
	return s.inputRequests.receiveInvalid(m, err)
}

// Inflight returns the requests in flight, for a wire that also carries requests of the
// other era: their ids share one space.
func (s *Session) Inflight() *rpc.Inflight { return s.inflight }

// Initialized reports whether the handshake is over.
func (s *Session) Initialized() bool { return s.initialized }

// Close cancels the requests and deferred notifications of the session, and ends its subscriptions.
func (s *Session) Close() {
	s.inflight.CancelAll(errSessionEnded)
	s.subscriptions.close()
	s.deferred.close()
}

var errSessionEnded = errors.New("session has ended")

// Limits on the client's description of itself, in bytes, because it is stored for each session.
const (
	maxInfo         = 2 << 10 // above it, only the names are stored
	maxName         = 256     // per name, if names are shortened
	maxCapabilities = 8 << 10
)

// truncateInfo returns the names of info, shortened. Icons make info long, and info is for display only.
func truncateInfo(info *mcp.Implementation) *mcp.Implementation {
	return &mcp.Implementation{Name: truncate(info.Name), Title: truncate(info.Title), Version: truncate(info.Version)}
}

func truncate(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}
