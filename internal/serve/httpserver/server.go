package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/httpguard"
	"github.com/parley-mcp/parley/internal/loglimit"
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

	// Headers returns the names of the headers that handlers can read; see HeaderOf. Nil means none.
	Headers func() []string

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
