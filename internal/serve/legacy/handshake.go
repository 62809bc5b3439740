package legacy

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// initialize returns the call of a handshake. The session has the state on which it agrees, and begins with its
// response.
func (s *Session) initialize(m *jsonrpc.Message) *rpc.Call {
	d := s.describe(m)
	state, fault := s.negotiate(&d)
	if !s.initialized {
		state.Address = s.Address
		s.State, s.peer = state, d.Peer
	}
	return &rpc.Call{Call: *call.New(d), Target: rpc.EraTarget(func(context.Context, *rpc.Call) (any, error) {
		if fault != nil {
			return nil, fault
		}
		result := s.server.Describe(s.who)
		result.ProtocolVersion = state.Revision
		return &result, nil
	})}
}

// begin begins the session if the middleware has returned a result for a valid handshake.
func (s *Session) begin(served bool) {
	switch {
	case s.initialized:
	case served && s.Revision != "":
		s.initialized = true
	default:
		s.State, s.peer = State{Address: s.Address}, call.Peer{}
	}
}

// negotiate reads the params of initialize. It returns the state of the new session and
// puts the revision and the peer into d. The error is the response to initialize.
func (s *Session) negotiate(d *call.Description) (State, *jsonrpc.Error) {
	if s.initialized {
		return State{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "session must not be initialized twice"}
	}
	version, _ := d.Params.Get("protocolVersion")
	info, hasInfo := d.Params.Get("clientInfo")
	capabilities, hasCapabilities := d.Params.Get("capabilities")
	d.Revision = revision.Negotiate(mcp.Revision(jsonrpc.Unquote(version)))
	switch {
	case len(version) == 0 || version[0] != '"':
		return State{}, invalidHandshake("protocolVersion must be a string")
	case !hasInfo || info[0] != '{':
		return State{}, invalidHandshake("clientInfo must be an object")
	case !hasCapabilities || capabilities[0] != '{':
		return State{}, invalidHandshake("capabilities must be an object")
	}
	if name, ok := rpc.CaseVariant(d.Params, "protocolVersion", "clientInfo", "capabilities"); ok {
		return State{}, invalidHandshake(fmt.Sprintf("unknown field %q: names are case-sensitive", name))
	}
	if len(capabilities) > maxCapabilities {
		return State{}, invalidHandshake(fmt.Sprintf("capabilities must have at most %d bytes", maxCapabilities))
	}
	peer, err := s.server.Peers.Decode(info, capabilities)
	if err != nil {
		return State{}, invalidHandshake(err.Error())
	}
	if len(info) > maxInfo {
		peer.Info = truncateInfo(peer.Info)
		if info, err = json.Marshal(peer.Info); err != nil {
			return State{}, invalidHandshake(err.Error())
		}
	}
	d.Peer = peer
	return State{Revision: d.Revision, Info: slices.Clone(info), Capabilities: slices.Clone(capabilities)}, nil
}

func invalidHandshake(reason string) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "initialize: %s", reason)
}

// ping returns the call of a ping, which is allowed before the handshake too; NewCall rejects all others. It does not
// count toward the limit of requests in flight.
func (s *Session) ping(m *jsonrpc.Message) *rpc.Call {
	d := s.describe(m)
	if d.Revision == "" {
		d.Revision = mcp.V20241105
	}
	return &rpc.Call{Call: *call.New(d), Target: rpc.EraTarget(pong)}
}

func pong(context.Context, *rpc.Call) (any, error) { return &mcp.EmptyResult{}, nil }

// defaultLevel is the least severe level that a client receives if it has not set one. The
// server may choose it (2025-11-25, server/utilities/logging).
const defaultLevel = mcp.LevelInfo

// logLevel is the log level of a session. It is safe for concurrent use.
type logLevel struct {
	chosen atomic.Pointer[mcp.LoggingLevel]
}

func (ss *logLevel) get() mcp.LoggingLevel {
	if chosen := ss.chosen.Load(); chosen != nil {
		return *chosen
	}
	return defaultLevel
}

// set sets the level. The empty level is the default.
func (ss *logLevel) set(chosen mcp.LoggingLevel) {
	if chosen == "" {
		ss.chosen.Store(nil)
		return
	}
	stays := chosen
	ss.chosen.Store(&stays)
}

// SetLevel implements rpc.SessionNotifier. It sets the session's log level, and stores it if the session is stored.
func (s *Session) SetLevel(ctx context.Context, chosen mcp.LoggingLevel) error {
	s, release := s.current()
	if s == nil {
		return errSessionEnded
	}
	defer release()
	if s.stored != nil {
		return s.stored.storeLevel(ctx, chosen)
	}
	s.level.set(chosen)
	return nil
}

// storeLevel sets the session's log level in the store, where every replica finds it, and here.
func (ss *StoredSession) storeLevel(ctx context.Context, chosen mcp.LoggingLevel) error {
	err := ss.update(ctx, func(state *State) error { state.LogLevel = chosen; return nil })
	if err == nil {
		ss.level.set(chosen)
	}
	return err
}
