package rpc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

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

// ErrAmbiguousOrigin is returned for a message of the peer that may belong to requests of several
// callers.
var ErrAmbiguousOrigin = errors.New("cannot tell which request the message belongs to: requests of several callers are in flight on this connection")

// Origin is the requests of this side that a message of the peer may belong to, as their contexts.
// All have the same caller. It is empty if there are no requests in flight.
type Origin []context.Context

// OriginOf returns the origin of a message. Stream is the id of the request on whose stream the
// message has arrived, or zero. Otherwise the message may belong to every request for which may
// returns true and whose context has not ended; the error is ErrAmbiguousOrigin if they have several
// callers.
func (o *Outbound) OriginOf(stream jsonrpc.ID, may func(*Request) bool) (Origin, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.pending[stream]; p != nil {
		return Origin{p.ctx}, nil
	}
	if !stream.IsZero() { // the request has ended
		return nil, nil
	}
	var all Origin
	for _, p := range o.pending {
		if may(p.req) && p.ctx.Err() == nil {
			all = append(all, p.ctx)
		}
	}
	for i := 1; i < len(all); i++ {
		if CallerOf(all[i]).Key != CallerOf(all[0]).Key {
			return nil, ErrAmbiguousOrigin
		}
	}
	return all, nil
}

// Context returns a context that has the values of one of the requests. It ends with ctx.
func (o Origin) Context(ctx context.Context) context.Context {
	if len(o) == 0 {
		return ctx
	}
	return withValues{ctx, o[0]}
}

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
		stops[i] = context.AfterFunc(request, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(request))
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
