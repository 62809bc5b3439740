package modern

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// Server turns messages of this era into calls. Set its fields before it serves.
type Server struct {
	Engine *rpc.Engine
	Peers  *rpc.PeerCache
	Seals  *seal.Keys // seal the states of calls that wait for input
	// Store holds states that are too large for clients. If it is nil, such calls fail. Its
	// operations must not block for ever.
	Store store.KV
	// WatchTasks subscribes the caller to its tasks among ids (tasks extension, Task Status Notifications). States
	// receives the state of each, a JSON object, at once and after changes; it is not closed. Stop ends the
	// subscription and must be called unless there is an error. Nil means that the server has no tasks.
	WatchTasks func(ctx context.Context, c *rpc.Call, ids []string) (accepted []string, states <-chan json.RawMessage,
		stop func(), err error)
	// Rechecks returns a channel that is closed when the callers of Listen may subscribe to other resources. Nil: it
	// never is.
	Rechecks func() <-chan struct{}
	Now      func() time.Time
	// Inflight keeps the requests of a connection, whose ids are unique there: each connection has its own copy of the
	// Server. It is nil for HTTP, where each request stands alone.
	Inflight *rpc.Inflight
}

func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

var _ rpc.Protocol = (*Server)(nil)

// NewCall implements rpc.Protocol. It validates the metadata of a request (2026-07-28, basic, _meta; basic/versioning).
//
// If a request has several faults, NewCall reports the first in this order: the version header is missing or repeated,
// the request declares an unsupported version, _meta is incomplete, header and _meta declare different versions, other
// headers differ from the body. The version comes before _meta, which a later revision may define in another way: its
// client needs the list of supported versions. The engine rejects an unknown method, so that middleware sees the call.
func (s *Server) NewCall(from rpc.Sender, m *jsonrpc.Message, class revision.Class) (*rpc.Call, *jsonrpc.Error) {
	fault := class.Fault
	switch {
	case fault == nil:
	case fault.Kind == revision.HeaderMismatch: // _meta is checked first
	case fault.Kind == revision.Unsupported && class.Revision == "": // so is _meta without a version
	default:
		return nil, fault.Wire()
	}
	both := new(served)
	c := &both.call
	d := call.Description{Revision: class.Revision, Principal: from.Who, Source: from.Source}
	if err := s.metadata(c, &d, m, &class.Metadata); err != nil {
		return nil, err
	}
	if fault != nil {
		return nil, fault.Wire()
	}
	if from.Binding != nil {
		if err := from.Binding.Check(m); err != nil {
			return nil, err
		}
		c.Binding = from.Binding
	}
	c.Call = *call.New(d)
	if rpc.MayRequestInput(m.Method) {
		both.replay.server, both.replay.call = s, c
		c.InputRequester = &both.replay
	}
	return c, nil
}

// served is a call and its input requester, in one allocation because most calls have both.
type served struct {
	call   rpc.Call
	replay replay
}

// metadata fills in c and d from a request and its _meta. It does not set the revision, which revision.Classify reads.
func (s *Server) metadata(c *rpc.Call, d *call.Description, m *jsonrpc.Message,
	meta *revision.Metadata) *jsonrpc.Error {
	capabilities, info, token, level := meta.ClientCapabilities, meta.ClientInfo, meta.ProgressToken, meta.LogLevel
	switch {
	case meta.Version == nil && !hasMetadata(m):
		return invalidMetadata("_meta is required and must be an object")
	case meta.Version == nil || meta.Version[0] != '"':
		return invalidMetadata("_meta must have the string " + mcp.MetaProtocolVersion)
	case capabilities == nil || capabilities[0] != '{':
		return invalidMetadata("_meta must have the object " + mcp.MetaClientCapabilities)
	case info != nil && info[0] != '{':
		return invalidMetadata(mcp.MetaClientInfo + " must be an object")
	}
	d.Method, d.ID, d.Params = m.Method, m.ID, &m.Params
	if token != nil {
		if err := c.ProgressToken.UnmarshalJSON(token); err != nil {
			return invalidMetadata("progressToken must be a string or an integer")
		}
	}
	if level != nil {
		c.LogLevel = mcp.LoggingLevel(jsonrpc.Unquote(level))
		switch {
		case !c.LogLevel.Known():
			return invalidMetadata(mcp.MetaLogLevel + " must be a known log level")
		case m.Method == mcp.MethodListen: // subscriptions receive no log messages (server/utilities/logging)
			c.LogLevel = ""
		}
	}
	peer, err := s.Peers.Decode(info, capabilities)
	if err != nil {
		return invalidMetadata("invalid clientInfo or clientCapabilities: " + err.Error())
	}
	d.Peer = peer
	return nil
}

// hasMetadata reports whether _meta of a request is an object.
func hasMetadata(m *jsonrpc.Message) bool {
	meta, ok := m.Params.Get("_meta")
	return ok && meta[0] == '{'
}

func invalidMetadata(reason string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid request metadata: " + reason}
}

// Discover returns the result of server/discover.
func Discover(capabilities mcp.ServerCapabilities, instructions string, hints mcp.CacheHints) *mcp.DiscoverResult {
	return &mcp.DiscoverResult{
		CacheHints:        hints,
		SupportedVersions: revision.Supported(),
		Capabilities:      capabilities,
		Instructions:      instructions,
	}
}

// Begin implements rpc.Protocol.
func (s *Server) Begin(ctx context.Context, c *rpc.Call, stream rpc.Stream) *jsonrpc.Error {
	c.Stream = stream
	if s.Inflight == nil {
		c.Bind(ctx)
		return nil
	}
	return s.Inflight.Accept(ctx, s.Engine, c)
}

// AppendReply implements rpc.Protocol. It restores the previous round of the request first, which may read from the
// store.
func (s *Server) AppendReply(dst *[]byte, c *rpc.Call) (reported *jsonrpc.Error) {
	reported = restore(c.Context(), c)
	if reported == nil {
		return s.Engine.AppendReply(dst, c)
	}
	if s.Inflight == nil || s.Inflight.End(c.ID()) {
		*dst = jsonrpc.AppendError(*dst, c.ID(), reported, false)
	}
	return reported
}

// InOrder implements rpc.Protocol: no message of this era depends on another.
func (s *Server) InOrder(*jsonrpc.Message) bool { return false }

// ServeNotification implements rpc.Protocol. Like a request, a notification must declare the client's capabilities in
// _meta.
func (s *Server) ServeNotification(ctx context.Context, from rpc.Sender, m *jsonrpc.Message, class revision.Class) {
	if class.Fault != nil || !s.Engine.AcceptsNotification(m.Method, class.Revision) {
		return
	}
	c := new(rpc.Call)
	d := call.Description{Revision: class.Revision, Principal: from.Who, Source: from.Source}
	if s.metadata(c, &d, m, &class.Metadata) != nil {
		return
	}
	c.Call = *call.New(d)
	s.Engine.ServeNotification(ctx, c)
}
