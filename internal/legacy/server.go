package legacy

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Server serves this era. Its fields are set before it serves.
type Server struct {
	Engine *rpc.Engine
	Peers  *rpc.Peers
	Logger *slog.Logger
	// Describe says what the server offers; revision and _meta are filled in here.
	Describe    func(who principal.Principal) mcp.InitializeResult
	Changes     *rpc.Changes // nil: nothing changes
	MaxInflight int          // requests of one session that are served at a time

	announcing announcementLimit
}

// Session is one handshake and what follows it, while it is being used. A session
// that outlives its connections is made anew from its State for each use; what it
// has in flight is then shared by these.
type Session struct {
	State
	// Source is what calls give as theirs, see call.Call; set before the first one.
	Source string

	server        *Server
	who           principal.Principal
	peer          call.Peer
	inflight      *rpc.Inflight
	inputRequests inputRequests
	level         logLevel
	subscriptions subscriptions
	announcements announcements
	received      atomic.Uint64  // messages that have come
	lastPing      atomic.Int64   // the id of the last ping, 0 if there was none
	stored        *StoredSession // this session as it is kept in a store; nil if it lives as long as its connection
	initialized   bool
}

// NewSession makes a session that awaits its handshake.
func (s *Server) NewSession(who principal.Principal) *Session {
	session := &Session{server: s, who: who, inflight: &rpc.Inflight{Max: s.MaxInflight}}
	session.inputRequests.seedIDs()
	return session
}

// Resume makes a session of what is known of it. Requests in flight are noted in inflight.
func (s *Server) Resume(who principal.Principal, state State, inflight *rpc.Inflight) (*Session, error) {
	peer, err := s.Peers.Decode(state.Info, state.Capabilities)
	if err != nil {
		return nil, err
	}
	session := &Session{State: state, server: s, who: who, peer: peer, inflight: inflight, initialized: true}
	session.inputRequests.seedIDs()
	session.level.set(state.LogLevel)
	session.subscriptions.uris, session.subscriptions.ready = state.Subscribed, state.Ready
	return session, nil
}

// Serve answers one request, appending the response to dst. It appends
// nothing when the peer has cancelled the request, which then has no response. Stream
// takes what the handler sends meanwhile.
//
// Safe for concurrent use once the handshake is over.
func (s *Session) Serve(ctx context.Context, dst []byte, m *jsonrpc.Message, stream rpc.Stream) []byte {
	s.received.Add(1)
	switch {
	case m.Method == mcp.MethodInitialize:
		return s.initialize(ctx, dst, m)
	case m.Method == mcp.MethodPing:
		return s.ping(ctx, dst, m)
	case !s.initialized:
		return appendError(dst, m.ID, jsonrpc.CodeInvalidRequest, "the session is not initialized: send initialize first")
	}
	c := &rpc.Call{Call: *call.New(s.describe(m)), Stream: stream, LogLevel: s.level.get()}
	if m.Method == mcp.MethodSetLevel {
		c.SetLevel = s.setLevel // only here: it costs an allocation
	}
	c.Subscriber, c.Voice = &s.subscriptions, s
	if stream != nil {
		c.Asker = &s.inputRequests
	}
	if meta, ok := m.Params.Get("_meta"); ok {
		if token, ok := jsonrpc.Get(meta, mcp.MetaProgressToken); ok {
			if c.ProgressToken.UnmarshalJSON(token) != nil {
				return appendError(dst, m.ID, jsonrpc.CodeInvalidParams, "progressToken must be a string or an integer")
			}
		}
	}
	return s.inflight.AppendReply(ctx, dst, s.server.Engine, c, nil)
}

// Notify takes one notification. Those that mean nothing to the session are ignored.
func (s *Session) ReceiveNotification(m *jsonrpc.Message) {
	s.received.Add(1)
	switch m.Method {
	case mcp.NotificationCancelled:
		s.inflight.Cancel(revision.CancelledID(m), call.ErrCancelled)
	case mcp.NotificationInitialized:
		if s.initialized {
			s.subscriptions.activate(s.server.listFilter(s.who))
		}
	}
}

// ServeNotification has the handler of a notification take it, if it has one: those of
// extensions do. It comes after Notify, and returns with the handler.
func (s *Session) ServeNotification(ctx context.Context, m *jsonrpc.Message) {
	if !s.initialized || !s.server.Engine.Takes(m.Method, s.Revision) {
		return
	}
	s.server.Engine.ServeNotification(ctx, &rpc.Call{Call: *call.New(s.describe(m))})
}

// describe returns the description of the call that m makes in the session.
func (s *Session) describe(m *jsonrpc.Message) call.Description {
	return call.Description{
		Method: m.Method, ID: m.ID, Params: &m.Params,
		Revision: s.Revision, Peer: s.peer, Principal: s.who, Source: s.Source,
	}
}

// Receive takes the client's response to a question of the server's, and reports whether
// there was one.
func (s *Session) ReceiveResponse(m *jsonrpc.Message) (asked bool) {
	s.received.Add(1)
	if s.inputRequests.receive(m) || s.isPong(m) {
		return true
	}
	s.server.Logger.Debug("response ignored: nobody waits for it", "id", m.ID)
	return false
}

// Unusable takes what was meant as the response to a question of the server's and is
// none, and reports whether it was.
func (s *Session) Unusable(m *jsonrpc.Message, err error) bool {
	s.received.Add(1)
	return s.inputRequests.unusable(m, err)
}

// Inflight is what the session has in flight, for a wire that carries requests of
// another era beside it: their ids are of one peer, and must not meet.
func (s *Session) Inflight() *rpc.Inflight { return s.inflight }

// Handshook reports whether the session has had its handshake.
func (s *Session) Initialized() bool { return s.initialized }

// Close ends whatever the session has in flight, or waits for.
func (s *Session) Close() {
	s.inflight.CancelAll(errSessionEnded)
	s.announcements.close()
}

var errSessionEnded = errors.New("the session has ended")

// Bounds on what is kept of a client's word about itself, in bytes. Sessions are
// many, and their clients need not be friendly.
const (
	maxInfo         = 2 << 10 // beyond it only the names are kept
	maxName         = 256     // of each of these then
	maxCapabilities = 8 << 10
)

// shorten returns the names in info, which is for people: what makes it long are
// pictures.
func truncateInfo(info *mcp.Implementation) *mcp.Implementation {
	return &mcp.Implementation{Name: truncate(info.Name), Title: truncate(info.Title), Version: truncate(info.Version)}
}

func truncate(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

func appendError(dst []byte, id jsonrpc.ID, code int64, message string) []byte {
	return jsonrpc.AppendError(dst, id, &jsonrpc.Error{Code: code, Message: message}, false)
}
