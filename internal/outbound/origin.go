package outbound

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// A peer sends input requests and log messages while it handles requests of this side. The handlers
// of these messages need the contexts of the requests: on a connection that several callers share,
// a message must reach only the caller whose request it belongs to.

// CallReceiver is a Receiver that distinguishes the messages on the stream of a request.
type CallReceiver interface {
	Receiver
	// ReceiveFor receives a message on the stream of the request with this id.
	ReceiveFor(id jsonrpc.ID, m *jsonrpc.Message)
}

// ErrAmbiguousOrigin is returned for a message of the peer that may belong to requests of several users.
var ErrAmbiguousOrigin = errors.New("cannot tell which request the message belongs to: requests of several callers " +
	"are in flight on this connection; " +
	`use a connection for each caller, in a configuration with "sharing": "perCaller"`)

// Origin is the requests of this side that a message of the peer may belong to, the likeliest first.
// All have the same user; see Caller. It is empty if there are no requests in flight.
type Origin []*pending

// OriginOf returns the origin of a message. Stream is the id of the request on whose stream the
// message has arrived, or zero. Otherwise the message may belong to every request for which may
// returns true and whose context has not ended; the error is ErrAmbiguousOrigin if they have several
// users. Requests whose client is connected come first. Among them come first those that do not wait
// for an answer, then those for whose target the peer has asked before, then the newest.
func (o *Requests) OriginOf(stream jsonrpc.ID, may func(*Request) bool) (Origin, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	origin, err := o.originOf(stream, may)
	if err != nil {
		return nil, err
	}
	return origin, nil
}

// QuestionOf is OriginOf for a request of the peer that a person or a model answers. The requests for whose targets the
// peer may ask take turns from then on, see turns.
func (o *Requests) QuestionOf(stream jsonrpc.ID, may func(*Request) bool) (Origin, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	origin, err := o.originOf(stream, may)
	for i, p := range origin {
		if stream.IsZero() && (i == 0 || err != nil) {
			o.turns.learn(p, true)
		}
	}
	if err != nil {
		return nil, err
	}
	return origin, nil
}

// AddQuestions adds n to the number of questions for which the likeliest request waits for an answer.
func (o *Requests) AddQuestions(origin Origin, n int) {
	if len(origin) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	origin[0].asked += n
	o.turns.changed()
}

// originOf is OriginOf. With ErrAmbiguousOrigin, it returns all requests. The caller holds mu.
func (o *Requests) originOf(stream jsonrpc.ID, may func(*Request) bool) (Origin, error) {
	if p := o.pending[stream]; p != nil {
		return Origin{p}, nil
	}
	if !stream.IsZero() { // the request has ended
		return nil, nil
	}
	var all Origin
	for _, p := range o.pending {
		if may(p.req) && p.ctx.Err() == nil {
			all = append(all, p)
		}
	}
	if slices.ContainsFunc(all, func(p *pending) bool { return !p.hasUserOf(all[0]) }) {
		return all, ErrAmbiguousOrigin
	}
	slices.SortFunc(all, func(a, b *pending) int {
		return cmp.Or(
			first(a.isConnected(), b.isConnected()), first(a.asked == 0, b.asked == 0),
			first(o.turns.known[a.target()], o.turns.known[b.target()]), cmp.Compare(b.number, a.number),
		)
	})
	return all, nil
}

// first compares in the order true, false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// hasUserOf reports whether an answer to one request may be that to the other.
func (p *pending) hasUserOf(other *pending) bool {
	a, b := &p.caller, &other.caller
	return a.Key == b.Key || a.User != nil && a.User == b.User
}

// isConnected reports whether the client that has caused the request can be asked now. The program itself can.
func (p *pending) isConnected() bool {
	c := rpc.From(p.ctx)
	return c == nil || c.Connected()
}

// isAbandoned reports whether the client that has caused the request has left without an answer.
func (p *pending) isAbandoned() bool {
	c := rpc.From(p.ctx)
	return c != nil && c.IsAbandoned()
}

// displace ends the call that has caused the request.
func (p *pending) displace() { rpc.From(p.ctx).Cancel(rpc.ErrDisplaced) }

// IsAbandoned reports whether all clients that may be meant have left without an answer.
func (o Origin) IsAbandoned() bool {
	return len(o) > 0 && !slices.ContainsFunc(o, func(p *pending) bool { return !p.isAbandoned() })
}

// Displace ends the call that has caused the likeliest request. IsAbandoned must be true.
func (o Origin) Displace() { o[0].displace() }

// Context returns a context that has the values of the likeliest request. It ends with ctx.
func (o Origin) Context(ctx context.Context) context.Context {
	if len(o) == 0 {
		return ctx
	}
	return withValues{ctx, o[0].ctx}
}

// Answered reports whether the response to the likeliest request has arrived.
func (o Origin) Answered() bool { return len(o) > 0 && o[0].isAnswered() }

// WhileInFlight returns a context that also ends when all requests have been given up. The returned
// function must be called.
func (o Origin) WhileInFlight(ctx context.Context) (context.Context, func()) {
	if len(o) == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var left atomic.Int64
	left.Store(int64(len(o)))
	stops := make([]func() bool, len(o))
	for i, request := range o {
		stops[i] = context.AfterFunc(request.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(request.ctx))
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// withValues is a context with the values of another one.
type withValues struct {
	context.Context
	values context.Context
}

// Value implements context.Context. The embedded context comes first, because package context looks
// for the cause in it.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// Completion reports the end of a URL elicitation, in revisions where the server announces it. It is
// safe for concurrent use.
type Completion struct {
	completed atomic.Bool
	once      sync.Once
	then      atomic.Pointer[func()]
}

// Then sets the function that Report calls. It replaces an earlier function.
func (c *Completion) Then(f func()) { c.then.Store(&f) }

// Wanted reports whether Then has set a function.
func (c *Completion) Wanted() bool { return c.then.Load() != nil }

// Complete records that the server has announced the end. It does not block.
func (c *Completion) Complete() { c.completed.Store(true) }

// Report calls the function once, if the server has announced the end.
func (c *Completion) Report() {
	if f := c.then.Load(); f != nil && c.completed.Load() {
		c.once.Do(*f)
	}
}

type completionKey struct{}

// WithCompletion returns a context for the handler of a URL elicitation.
func WithCompletion(ctx context.Context, c *Completion) context.Context {
	return context.WithValue(ctx, completionKey{}, c)
}

// CompletionOf returns what WithCompletion has set, or nil.
func CompletionOf(ctx context.Context) *Completion {
	c, _ := ctx.Value(completionKey{}).(*Completion)
	return c
}
