package httpwire

import (
	"net/http"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// maxListensPerAddress bounds the subscriptions from one address that nobody is
// authenticated for. Many clients can share one.
const maxListensPerAddress = 1_000

// listens counts the subscriptions that are open, by owner. Each is a connection of
// its own here, so that no session holds them together.
type listens struct {
	mu     sync.Mutex
	owners map[string]int
}

// enter counts one more subscription of whoever sends the request, unless they have as
// many as they may. The error is for the client.
func (l *listens) enter(who principal.Principal, r *http.Request) (leave func(), _ *jsonrpc.Error) {
	owner, most := who.Key(), call.MaxSubscriptions
	if who == principal.Anonymous {
		owner, most = "address/"+addressOf(r), maxListensPerAddress
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners[owner] >= most {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: call.ErrTooManySubscriptions.Error()}
	}
	if l.owners == nil {
		l.owners = make(map[string]int)
	}
	l.owners[owner]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.owners[owner]--; l.owners[owner] == 0 {
			delete(l.owners, owner)
		}
	}, nil
}
