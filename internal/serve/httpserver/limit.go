package httpserver

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// maxListensPerAddress is the limit of anonymous subscriptions from one address. It is
// high because many clients can share an address.
const maxListensPerAddress = 1_000

// limiter is an in-flight limit of stateless requests: it counts them by owner. The zero limiter is ready for use. It
// is safe for concurrent use.
type limiter struct {
	mu     sync.Mutex
	counts map[changes.Owner]int
}

// acquire counts a stateless request of a sender. If its owner has reached the limit, acquire returns the error.
// Otherwise, the caller must call release on the limiter with the owner. Subscriptions, which are long-lived, have a
// separate limiter so that they do not use up the limit of other requests.
func (s *Server) acquire(
	method string, from *rpc.Sender,
) (count *limiter, by changes.Owner, above *call.OverloadError) {
	by = changes.OwnerOf(from.Who, from.Source)
	count, limit, above := &s.stateless, s.PerOwner, rpc.ErrTooManyInFlight
	if from.Who == principal.Anonymous {
		limit = s.PerAddress
	}
	if rpc.IsLongLived(method) {
		count, limit, above = &s.listens, rpc.MaxSubscriptions, rpc.ErrTooManySubscriptions
		if from.Who == principal.Anonymous {
			limit = maxListensPerAddress
		}
	}
	count.mu.Lock()
	defer count.mu.Unlock()
	if limit > 0 && count.counts[by] >= limit {
		return nil, by, above
	}
	if count.counts == nil {
		count.counts = make(map[changes.Owner]int)
	}
	count.counts[by]++
	return count, by, nil
}

// release subtracts one from the count.
func (t *limiter) release(o changes.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts[o]--; t.counts[o] == 0 {
		delete(t.counts, o)
	}
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
