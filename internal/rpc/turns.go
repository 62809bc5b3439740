package rpc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
)

// On a byte stream, a peer does not say for which request it asks a question. Once it has asked while requests of
// several callers were in flight, the requests for which it may ask take turns, so that only one caller can be meant.

// Limits of the requests that wait for their turn.
const (
	maxTurnQueue   = 64
	maxTurnWait    = time.Minute
	turnPoll       = time.Second // how often the connections of clients are examined
	maxTurnTargets = 1024        // above it, requests for further targets do not wait
)

// turns is the queue of the requests that wait for their turn. Outbound.mu guards it.
type turns struct {
	asks  map[target]bool // the targets for which the peer may ask
	queue []*pending      // in the order of their arrival
	wake  chan struct{}   // closed when a request may have its turn; nil if none waits
}

// target is what the peer serves, such as a tool.
type target struct{ method, name string }

func (p *pending) target() target { return target{p.req.Method, p.req.Name} }

// learn records that the peer may ask for the target of a request.
func (t *turns) learn(p *pending) {
	if !MayRequestInput(p.req.Method) || len(t.asks) >= maxTurnTargets {
		return
	}
	if t.asks == nil {
		t.asks = make(map[target]bool)
	}
	t.asks[p.target()] = true
}

// changed wakes the requests that wait.
func (t *turns) changed() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// awaitTurn waits until p can be sent such that a question of the peer has one caller, and begins it. The error is a
// *call.OverloadError if too many requests wait or p waits for too long.
func (o *Outbound) awaitTurn(ctx context.Context, p *pending) error {
	wake, err := o.beginInTurn(p)
	if wake == nil {
		return err
	}
	defer o.leaveQueue(p)
	limit, poll := time.NewTimer(maxTurnWait), time.NewTicker(turnPoll)
	defer limit.Stop()
	defer poll.Stop()
	for wake != nil {
		select {
		case <-wake:
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", call.ErrNotSent, context.Cause(ctx))
		case <-limit.C:
			return errTurn
		}
		wake, err = o.beginInTurn(p)
	}
	return err
}

var errTurn = &call.OverloadError{RetryAfter: time.Second, Limit: "calls that wait until the questions of the server to other callers are answered " +
	`(set "sharing": "perCaller" to serve callers at the same time)`}

// beginInTurn begins p. If it is not p's turn, beginInTurn puts p into the queue and returns a channel that is closed
// when it may be.
func (o *Outbound) beginInTurn(p *pending) (wake <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil || !o.mustWait(p) {
		return nil, o.begin(p)
	}
	if !slices.Contains(o.turns.queue, p) {
		if len(o.turns.queue) >= maxTurnQueue {
			return nil, errTurn
		}
		o.turns.queue = append(o.turns.queue, p)
	}
	if o.turns.wake == nil {
		o.turns.wake = make(chan struct{})
	}
	return o.turns.wake, nil
}

func (o *Outbound) leaveQueue(p *pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns.queue = slices.DeleteFunc(o.turns.queue, func(other *pending) bool { return other == p })
	o.turns.changed()
}

// mustWait reports whether a request in flight, or one that waits for longer, must end before p begins. The caller holds
// mu.
func (o *Outbound) mustWait(p *pending) bool {
	if len(o.turns.asks) == 0 || !MayRequestInput(p.req.Method) {
		return false
	}
	for _, earlier := range o.turns.queue {
		if earlier == p {
			break
		}
		if o.excludes(earlier, p) {
			return true
		}
	}
	for _, other := range o.pending {
		if MayRequestInput(other.req.Method) && o.excludes(other, p) {
			return true
		}
	}
	return false
}

// excludes reports whether p must not be in flight together with an earlier request. Requests of one user must not if
// the peer may ask for both, unless the earlier one waits for an answer, or has no client that could be asked. Requests
// of several users must not if the peer may ask for one of them.
func (o *Outbound) excludes(earlier, p *pending) bool {
	a, b := o.turns.asks[earlier.target()], o.turns.asks[p.target()]
	switch {
	case CallerOf(earlier.ctx).Key == CallerOf(p.ctx).Key, !a && !b:
		return false
	case !earlier.hasUserOf(p):
		return true
	}
	return a && b && earlier.asked == 0 && earlier.isConnected()
}
