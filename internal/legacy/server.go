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

	awaited awaited
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
	asks          asks
	level         level
	subscriptions subscriptions
	voice         voice
	heard         atomic.Uint64 // messages that have come
	pinged        atomic.Int64  // the id of the last ping, 0 if there was none
	kept          *Live         // this session as it is kept in a store; nil if it lives as long as its connection
	handshook     bool
}

// NewSession makes a session that awaits its handshake.
func (s *Server) NewSession(who principal.Principal) *Session {
	session := &Session{server: s, who: who, inflight: &rpc.Inflight{Max: s.MaxInflight}}
	session.asks.begin()
	return session
}

// Resume makes a session of what is known of it. Requests in flight are noted in inflight.
func (s *Server) Resume(who principal.Principal, state State, inflight *rpc.Inflight) (*Session, error) {
	peer, err := s.Peers.Decode(state.Info, state.Capabilities)
	if err != nil {
		return nil, err
	}
	session := &Session{State: state, server: s, who: who, peer: peer, inflight: inflight, handshook: true}
	session.asks.begin()
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
	s.heard.Add(1)
	switch {
	case m.Method == mcp.MethodInitialize:
		return s.initialize(ctx, dst, m)
	case m.Method == mcp.MethodPing:
		return s.ping(ctx, dst, m)
	case !s.handshook:
		return reject(dst, m.ID, jsonrpc.CodeInvalidRequest, "the session is not initialized: send initialize first")
	}
	c := &rpc.Call{Call: *call.New(s.describe(m)), Stream: stream, LogLevel: s.level.get()}
	if m.Method == mcp.MethodSetLevel {
		c.SetLevel = s.setLevel // only here: it costs an allocation
	}
	c.Subscriber, c.Voice = &s.subscriptions, s
	if stream != nil {
		c.Asker = &s.asks
	}
	if meta, ok := m.Params.Get("_meta"); ok {
		if token, ok := jsonrpc.Get(meta, mcp.MetaProgressToken); ok {
			if c.ProgressToken.UnmarshalJSON(token) != nil {
				return reject(dst, m.ID, jsonrpc.CodeInvalidParams, "progressToken must be a string or an integer")
			}
		}
	}
	return s.inflight.AppendReply(ctx, dst, s.server.Engine, c, nil)
}

// Notify takes one notification. Those that mean nothing to the session are ignored.
func (s *Session) Notify(m *jsonrpc.Message) {
	s.heard.Add(1)
	switch m.Method {
	case mcp.NotificationCancelled:
		s.inflight.Cancel(revision.CancelledID(m), call.ErrCancelled)
	case mcp.NotificationInitialized:
		if s.handshook {
			s.subscriptions.begin(s.server.lists(s.who))
		}
	}
}

// ServeNotification has the handler of a notification take it, if it has one: those of
// extensions do. It comes after Notify, and returns with the handler.
func (s *Session) ServeNotification(ctx context.Context, m *jsonrpc.Message) {
	if !s.handshook || !s.server.Engine.Takes(m.Method, s.Revision) {
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
func (s *Session) Receive(m *jsonrpc.Message) (asked bool) {
	s.heard.Add(1)
	if s.asks.receive(m) || s.isPong(m) {
		return true
	}
	s.server.Logger.Debug("response ignored: nobody waits for it", "id", m.ID)
	return false
}

// Unusable takes what was meant as the response to a question of the server's and is
// none, and reports whether it was.
func (s *Session) Unusable(m *jsonrpc.Message, err error) bool {
	s.heard.Add(1)
	return s.asks.unusable(m, err)
}

// Inflight is what the session has in flight, for a wire that carries requests of
// another era beside it: their ids are of one peer, and must not meet.
func (s *Session) Inflight() *rpc.Inflight { return s.inflight }

// Handshook reports whether the session has had its handshake.
func (s *Session) Handshook() bool { return s.handshook }

// Close ends whatever the session has in flight, or waits for.
func (s *Session) Close() {
	s.inflight.CancelAll(errSessionEnded)
	s.voice.close()
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
func shorten(info *mcp.Implementation) *mcp.Implementation {
	return &mcp.Implementation{Name: cut(info.Name), Title: cut(info.Title), Version: cut(info.Version)}
}

func cut(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

func reject(dst []byte, id jsonrpc.ID, code int64, message string) []byte {
	return jsonrpc.AppendError(dst, id, &jsonrpc.Error{Code: code, Message: message}, false)
}
