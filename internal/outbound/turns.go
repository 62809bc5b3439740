package outbound

import (
	"context"
	"slices"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// On a byte stream, a peer does not say for which request it asks a question. The requests of several callers for which
// it may ask therefore take turns, so that only one caller can be meant.

// Limits of the requests that wait for their turn.
const (
	maxTurnQueue = 64
	maxTurnWait  = time.Minute
	maxLeft      = 10 * time.Second // how long a request waits for one whose client has left
	maxTurn      = 2 * time.Second  // how long a request holds back others while the peer may ask for it
	// how often the ages of requests and the connections of clients are examined
	turnPoll       = 250 * time.Millisecond
	maxTurnTargets = 1024 // that are remembered; requests for others do not wait
)

// turns is the queue of the requests that wait for their turn. Requests.mu guards it.
type turns struct {
	known  map[target]bool // whether the peer asks for a target
	asking int             // targets for which it asks
	queue  []*pending      // in the order of their arrival
	wake   chan struct{}   // closed when a request may have its turn; nil if none waits
}

// target is what the peer serves, such as a tool.
type target struct{ method, name string }

func (p *pending) target() target { return target{p.req.Method, p.req.Name} }

// learn records whether the peer asks for the target of a request. A target for which it asks takes the place of one
// for which it does not.
func (t *turns) learn(p *pending, asks bool) {
	if !rpc.MayRequestInput(p.req.Method) {
		return
	}
	if len(t.known) >= maxTurnTargets {
		if !asks || t.asking >= maxTurnTargets {
			return
		}
		for other, asksForOther := range t.known {
			if !asksForOther {
				delete(t.known, other)
				break
			}
		}
	}
	if t.known == nil {
		t.known = make(map[target]bool)
	}
	if asks && !t.known[p.target()] {
		t.asking++
	}
	t.known[p.target()] = asks
}

// ended records that the peer has not asked for a request that has a response. Only on one stream is a peer expected to
// ask. The caller holds mu.
func (o *Requests) ended(p *pending) {
	if _, known := o.turns.asksFor(p); !known && o.OneStream && p.caller.Key != nil && p.isAnswered() {
		o.turns.learn(p, false)
	}
	o.turns.changed()
}

// asksFor reports whether the peer asks for the target of a request, and whether that is known.
func (t *turns) asksFor(p *pending) (asks, known bool) {
	asks, known = t.known[p.target()]
	return asks, known || len(t.known) >= maxTurnTargets
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
func (o *Requests) awaitTurn(ctx context.Context, p *pending) error {
	wake, err := o.beginInTurn(p)
	if wake == nil {
		return err
	}
	defer o.leaveQueue(p)
	begun := time.Now()
	limit, poll := time.NewTimer(maxTurnWait), time.NewTicker(turnPoll)
	defer limit.Stop()
	defer poll.Stop()
	var late <-chan time.Time // the time-outs of p are not paused while others are asked
	if !p.deadline.IsZero() {
		timer := time.NewTimer(time.Until(p.deadline))
		defer timer.Stop()
		late = timer.C
	}
	for wake != nil {
		select {
		case <-wake:
		case <-poll.C:
			if time.Since(begun) >= maxLeft {
				o.displaceFor(p)
			}
		case <-late:
		case <-ctx.Done():
		case <-limit.C:
			return unsent(errTurn)
		}
		if ctx.Err() != nil {
			return unsent(context.Cause(ctx))
		}
		if err := p.expire(time.Now()); err != nil {
			return unsent(err)
		}
		wake, err = o.beginInTurn(p)
	}
	return err
}

// displaceFor ends the requests that p waits for and whose clients have left.
func (o *Requests) displaceFor(p *pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, other := range o.pending {
		if rpc.MayRequestInput(other.req.Method) && o.excludes(other, p) && other.isAbandoned() {
			other.displace()
		}
	}
}

var errTurn = &call.OverloadError{RetryAfter: time.Second,
	Limit: "calls that wait until the questions of the server to other callers are answered " +
		`(set "sharing": "perCaller" to serve callers at the same time)`}

// beginInTurn begins p. If it is not p's turn, beginInTurn puts p into the queue and returns a channel that is closed
// when it may be.
func (o *Requests) beginInTurn(p *pending) (wake <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil || !o.mustWait(p) {
		return nil, o.begin(p)
	}
	if !slices.Contains(o.turns.queue, p) {
		if len(o.turns.queue) >= maxTurnQueue {
			return nil, unsent(errTurn)
		}
		o.turns.queue = append(o.turns.queue, p)
	}
	if o.turns.wake == nil {
		o.turns.wake = make(chan struct{})
	}
	return o.turns.wake, nil
}

func (o *Requests) leaveQueue(p *pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns.queue = slices.DeleteFunc(o.turns.queue, func(other *pending) bool { return other == p })
	o.turns.changed()
}

// mustWait reports whether a request in flight, or one that waits for longer, must end before p begins. The caller
// holds mu.
func (o *Requests) mustWait(p *pending) bool {
	if !o.OneStream && o.turns.asking == 0 || p.caller.Key == nil || !rpc.MayRequestInput(p.req.Method) {
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
		if rpc.MayRequestInput(other.req.Method) && o.excludes(other, p) {
			return true
		}
	}
	return false
}

// excludes reports whether p must not be in flight together with an earlier request. Requests of several users must not
// if the peer asks for one of them. Otherwise p only waits for the time in which a peer asks, if it may ask for both:
// until the earlier one waits for an answer, or its client has left.
func (o *Requests) excludes(earlier, p *pending) bool {
	if earlier.caller.Key == p.caller.Key {
		return false
	}
	asksForEarlier, knowsEarlier := o.turns.asksFor(earlier)
	asksForP, knowsP := o.turns.asksFor(p)
	several := !earlier.hasUserOf(p)
	if several && (asksForEarlier || asksForP) {
		return true
	}
	mayAskForEarlier, mayAskForP := asksForEarlier || !knowsEarlier && o.OneStream, asksForP || !knowsP && o.OneStream
	if !mayAskForEarlier || !mayAskForP && !several {
		return false
	}
	if !earlier.begun.IsZero() && time.Since(earlier.begun) >= maxTurn {
		if !knowsEarlier {
			o.turns.learn(earlier, false)
		}
		return false
	}
	return several || earlier.asked == 0 && earlier.isConnected()
}
