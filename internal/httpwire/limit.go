package httpwire

import (
	"net/http"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// maxListensPerAddress bounds the subscriptions from one address that nobody is
// authenticated for. Many clients can share one.
const maxListensPerAddress = 1_000

// owner is whose a stateless request is: a principal's or, where nobody is
// authenticated, an address's. What clients may have that have no session is counted
// by owner.
type owner struct {
	who     principal.Principal
	address string
}

func (s *Server) ownerOf(r *http.Request) owner {
	return owner{s.principalOf(r), addressOf(r)}
}

// key is what owners are told apart by: who is authenticated is the same everywhere.
func (o owner) key() owner {
	if o.who != principal.Anonymous {
		o.address = ""
	}
	return o
}

// tally counts what owners have. Safe for concurrent use.
type limiter struct {
	mu     sync.Mutex
	usages map[owner]*usage
	// idle is the one that became empty last, and stays in the map: whoever comes next is
	// often the one that was there last. All others in the map have something, but for it.
	idle *usage
}

// holding is what one owner has.
type usage struct {
	of *limiter
	by owner
	n  int // under the mutex of of
}

// take counts one more of an owner's, unless it has most already; 0: no limit. It is
// followed by give if it succeeds.
func (t *limiter) acquire(o owner, limit int) (h *usage, ok bool) {
	o = o.key()
	t.mu.Lock()
	defer t.mu.Unlock()
	if h = t.usages[o]; h == nil {
		if t.usages == nil {
			t.usages = make(map[owner]*usage)
		}
		h = &usage{of: t, by: o}
		t.usages[o] = h
	}
	if limit > 0 && h.n >= limit {
		return nil, false
	}
	h.n++
	return h, true
}

// give takes one off the count.
func (h *usage) release() {
	t := h.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.n--; h.n > 0 {
		return
	}
	if last := t.idle; last != nil && last != h && last.n == 0 {
		delete(t.usages, last.by)
	}
	t.idle = h
}

// boundOn returns where requests of a method are counted, and how many of one owner
// may be served at a time. Subscriptions, which stay, leave room for others. Each is a
// connection of its own here, so that no session holds them together.
func (s *Server) limiterFor(method string, o owner) (count *limiter, limit int) {
	anonymous := o.who == principal.Anonymous
	switch stays := rpc.Stays(method); {
	case stays && anonymous:
		return &s.listens, maxListensPerAddress
	case stays:
		return &s.listens, rpc.MaxSubscriptions
	case anonymous:
		return &s.stateless, s.PerAddress
	}
	return &s.stateless, s.PerOwner
}

// refuseMore refuses a request of an owner that has as many as it may.
func rejectOverLimit(w http.ResponseWriter, m *jsonrpc.Message) {
	if rpc.Stays(m.Method) {
		rejectTooMany(w, m.ID, "60", rpc.ErrTooManySubscriptions.Error())
		return
	}
	rejectTooMany(w, m.ID, "1", "too many requests of this client are in flight: try again when one is answered")
}

// tooMany refuses a request that may be sent again after so many seconds.
func rejectTooMany(w http.ResponseWriter, request jsonrpc.ID, seconds, reason string) {
	w.Header()["Retry-After"] = []string{seconds}
	reject(w, http.StatusTooManyRequests, request, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: reason})
}
