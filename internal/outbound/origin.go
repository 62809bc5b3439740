package outbound

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// A peer sends input requests and log messages while it handles requests of this side. The handlers of these messages
// need the contexts of the requests: on a connection that several people share, a message must reach only the person
// whose request it belongs to.

// CallReceiver is a Receiver that distinguishes the messages on the stream of a request.
type CallReceiver interface {
	Receiver
	// ReceiveFor receives a message on the stream of the request with this id.
	ReceiveFor(id jsonrpc.ID, m *jsonrpc.Message)
}

// Origin lists the requests of this side that a message of the peer may belong to, the likeliest first. It is empty
// if none are in flight, or if the connection is shared and the protocol does not say which request the message
// belongs to.
type Origin []*pending

// OriginOf returns the origin of a message. stream is the ID of the request on whose stream the message has arrived. If
// it is zero, the message may belong to any request for which may returns true, unless the connection is Shared.
func (o *Requests) OriginOf(stream jsonrpc.ID, may func(*Request) bool) Origin {
	o.mu.Lock()
	p := o.pending[stream]
	o.mu.Unlock()
	switch {
	case p != nil:
		return Origin{p}
	case !stream.IsZero(), o.Shared: // the request has ended
		return nil
	}
	return o.OriginWhere(may)
}

// OriginWhere returns the requests in flight for which is returns true and whose context has not ended. Requests
// whose client is connected come first, the newest ones before older ones.
func (o *Requests) OriginWhere(is func(*Request) bool) (all Origin) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.pending {
		if is(p.req) && p.ctx.Err() == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *pending) int {
		if connected := a.isConnected(); connected != b.isConnected() {
			if connected {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.number, a.number)
	})
	return all
}

// isConnected reports whether the client that caused the request can be asked now. The program itself always
// can.
func (p *pending) isConnected() bool {
	c := rpc.From(p.ctx)
	return c == nil || c.Connected()
}

// isAbandoned reports whether the client that caused the request has left without an answer.
func (p *pending) isAbandoned() bool {
	c := rpc.From(p.ctx)
	return c != nil && c.IsAbandoned()
}

// IsAbandoned reports whether every client that the message may concern has left without an answer.
func (o Origin) IsAbandoned() bool {
	return len(o) > 0 && !slices.ContainsFunc(o, func(p *pending) bool { return !p.isAbandoned() })
}

// Displace ends the call that caused the likeliest request. IsAbandoned must be true.
func (o Origin) Displace() { rpc.From(o[0].ctx).Cancel(rpc.ErrDisplaced) }

// Context returns a context with the values of the likeliest request. It ends with ctx.
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

// withValues is a context that also looks for values in another context.
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
