package httpserver

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// maxListensPerAddress is the limit of anonymous subscriptions from one address. It is
// high because many clients can share an address.
const maxListensPerAddress = 1_000

// owner identifies the client of a stateless request: by principal or, for anonymous
// clients, by address. Limits on requests without a session apply per owner.
type owner struct {
	who     principal.Principal
	address string // empty unless who is anonymous
}

// limiter is an in-flight limit: it counts requests by owner. The zero limiter is ready
// for use. It is safe for concurrent use.
type limiter struct {
	mu     sync.Mutex
	counts map[owner]int
}

// acquire adds one to the count of o. It reports false if the count has reached limit; 0
// means no limit. If it succeeds, the caller must call release.
func (t *limiter) acquire(o owner, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if limit > 0 && t.counts[o] >= limit {
		return false
	}
	if t.counts == nil {
		t.counts = make(map[owner]int)
	}
	t.counts[o]++
	return true
}

// release subtracts one from the count.
func (t *limiter) release(o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[o]--; t.counts[o] == 0 {
		delete(t.counts, o)
	}
}

// limiterFor returns the limiter for requests of a method, the limit for the owner, and the error above it.
// Subscriptions, which are long-lived, have a separate limiter so that they do not use up the limit of other requests.
func (s *Server) limiterFor(method string, o owner) (count *limiter, limit int, above *call.OverloadError) {
	anonymous := o.who == principal.Anonymous
	switch stays := rpc.IsLongLived(method); {
	case stays && anonymous:
		return &s.listens, maxListensPerAddress, rpc.ErrTooManySubscriptions
	case stays:
		return &s.listens, rpc.MaxSubscriptions, rpc.ErrTooManySubscriptions
	case anonymous:
		return &s.stateless, s.PerAddress, rpc.ErrTooManyInFlight
	}
	return &s.stateless, s.PerOwner, rpc.ErrTooManyInFlight
}

// errTooManyRequests is the error when the limit of requests in flight on the server is reached.
var errTooManyRequests = &call.OverloadError{Limit: "requests in flight on this server", RetryAfter: time.Second}

// rejectOverload rejects a request because of a limit, and logs the limit. The status is 429
// for a limit of the client and 503 for one of the server.
func (s *Server) rejectOverload(w http.ResponseWriter, r *http.Request, status int, request jsonrpc.ID,
	e *call.OverloadError) {
	s.overloads.Log(r.Context(), s.Logger, slog.LevelWarn, "overload: request rejected", slog.String("limit", e.Limit),
		slog.Int("status", status))
	setRetryAfter(w, e.RetryAfter)
	reject(w, status, request, rpc.Rejection(e))
}
