package legacy

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// questions contains the requests of the server that are being answered, oldest first.
type questions struct {
	mu  sync.Mutex
	all []*inputRequest
}

func (s *questions) add(q *inputRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, q)
}

// remove removes a question. It reports false if the question is already gone.
func (s *questions) remove(q *inputRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.all, q)
	if i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
	return i >= 0
}

// takeAbandoned removes the oldest question whose clients have all left.
func (s *questions) takeAbandoned() (*inputRequest, bool) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	q, found := rpc.Oldest(all, (*inputRequest).isAbandoned)
	return q, found && s.remove(q)
}

func (q *inputRequest) isAbandoned() bool { return q.origin.IsAbandoned() }

// begin adds a request of the server. If there are too many, the request takes the place of the oldest abandoned
// question.
func (c *Client) begin(id jsonrpc.ID) (context.Context, error) {
	for {
		ctx, err := c.inFlight.Begin(c.ctx, id)
		if !errors.Is(err, rpc.ErrTooManyInFlight) || !c.displaceQuestion() {
			return ctx, err
		}
	}
}

// displaceQuestion makes room for a request of the server: it ends the oldest abandoned question and its call. It
// reports false if there is none.
func (c *Client) displaceQuestion() bool {
	q, found := c.questions.takeAbandoned()
	if !found {
		return false
	}
	q.cancel(rpc.ErrDisplaced)
	if c.inFlight.End(q.id) { // otherwise the server has cancelled it
		c.reply(jsonrpc.AppendError(nil, q.id, rpc.DisplacedResponse, false))
	}
	q.origin.Displace()
	return true
}
