package httpserver

import (
	"log/slog"
	"net/http"
	"strconv"
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
	address string
}

func (s *Server) ownerOf(r *http.Request) owner {
	return owner{s.principalOf(r), addressOf(r)}
}

// key returns o without the address if the client is authenticated.
func (o owner) key() owner {
	if o.who != principal.Anonymous {
		o.address = ""
	}
	return o
}

// limiter is an in-flight limit: it counts requests by owner. The zero limiter is ready
// for use. It is safe for concurrent use.
type limiter struct {
	mu     sync.Mutex
	usages map[owner]*usage
	// idle is the usage that most recently dropped to 0. It remains in the map, because
	// the next request often has the same owner. All other usages in the map are positive.
	idle *usage
}

// usage is the count of one owner.
type usage struct {
	limiter *limiter
	owner   owner
	n       int // guarded by limiter.mu
}

// acquire adds one to the count of o. It reports false if the count has reached limit; 0
// means no limit. If it succeeds, the caller must release h.
func (t *limiter) acquire(o owner, limit int) (h *usage, ok bool) {
	o = o.key()
	t.mu.Lock()
	defer t.mu.Unlock()
	if h = t.usages[o]; h == nil {
		if t.usages == nil {
			t.usages = make(map[owner]*usage)
		}
		h = &usage{limiter: t, owner: o}
		t.usages[o] = h
	}
	if limit > 0 && h.n >= limit {
		return nil, false
	}
	h.n++
	return h, true
}

// release subtracts one from the count.
func (h *usage) release() {
	t := h.limiter
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.n--; h.n > 0 {
		return
	}
	if last := t.idle; last != nil && last != h && last.n == 0 {
		delete(t.usages, last.owner)
	}
	t.idle = h
}

// limiterFor returns the limiter for requests of a method and the limit for the owner. Subscriptions, which are
// long-lived, have a limiter of their own so that they do not use up the limit of other requests.
func (s *Server) limiterFor(method string, o owner) (count *limiter, limit int) {
	anonymous := o.who == principal.Anonymous
	switch stays := rpc.IsLongLived(method); {
	case stays && anonymous:
		return &s.listens, maxListensPerAddress
	case stays:
		return &s.listens, rpc.MaxSubscriptions
	case anonymous:
		return &s.stateless, s.PerAddress
	}
	return &s.stateless, s.PerOwner
}

// errTooManyRequests is the error when the limit of requests in flight on the server is reached.
var errTooManyRequests = &call.OverloadError{Limit: "requests in flight on this server", RetryAfter: time.Second}

// overloadOf returns the error for a request whose owner has reached its limit.
func overloadOf(m *jsonrpc.Message) *call.OverloadError {
	if rpc.IsLongLived(m.Method) {
		return rpc.ErrTooManySubscriptions
	}
	return rpc.ErrTooManyInFlight
}

// rejectOverload rejects a request because of a limit, and logs the limit. The status is 429
// for a limit of the client and 503 for one of the server.
func (s *Server) rejectOverload(w http.ResponseWriter, r *http.Request, status int, request jsonrpc.ID,
	e *call.OverloadError) {
	s.overloads.Log(r.Context(), s.Logger, slog.LevelWarn, "overload: request rejected", slog.String("limit", e.Limit),
		slog.Int("status", status))
	setRetryAfter(w, e.RetryAfter)
	reject(w, status, request, e.Wire())
}

// setRetryAfter sets the Retry-After header (RFC 9110, section 10.2.3).
func setRetryAfter(w http.ResponseWriter, d time.Duration) {
	seconds := max((d+time.Second-1)/time.Second, 1)
	w.Header()["Retry-After"] = []string{strconv.FormatInt(int64(seconds), 10)}
}
