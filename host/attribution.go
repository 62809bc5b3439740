package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/principal"
)

// This file decides whose request a message of a server belongs to if the message names none; see
// connection.context.

// maxLateLogs is the maximum number of log messages without a request in one second. Others are dropped.
const maxLateLogs = 256

// pending is a request in flight. It serves as the context of the request to the server.
type pending struct {
	context.Context
	on    *connection
	other bool // its caller is not the user of this machine

	// Guarded by connection.mu.
	asked int  // number of questions of the server that wait for an answer
	ended bool // a question has found out that the caller's call is over

	mu   sync.Mutex
	made int            // number of requests that the server has sent in the meantime
	same map[string]int // how often an approval was requested, by its digest
}

type pendingKey struct{}

// Value implements context.Context.
func (p *pending) Value(key any) any {
	if _, ok := key.(pendingKey); ok {
		return p
	}
	return p.Context.Value(key)
}

// pendingOf returns the request that ctx belongs to, or nil.
func pendingOf(ctx context.Context) *pending {
	p, _ := ctx.Value(pendingKey{}).(*pending)
	return p
}

// begin begins a request. The caller must call end.
func (c *connection) begin(ctx context.Context) *pending {
	caller := callerFrom(ctx)
	p := &pending{Context: ctx, on: c, other: caller != nil && caller.principal() != principal.Local}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending = append(c.pending, p); caller != nil {
		c.last, c.several = caller, c.several || p.other
	}
	return p
}

func (c *connection) end(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.pending, p)
	if c.pending = slices.Delete(c.pending, i, i+1); len(c.pending) == 0 {
		for _, q := range c.questions {
			q.cancel(call.ErrCancelled)
		}
	}
}

// context returns the context of a message of the server. If the protocol does not say which request the message
// belongs to, it belongs to the newest request in flight, or to the last caller. If it could belong to several
// people, it belongs to nobody.
func (c *connection) context(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.contextLocked(ctx)
}

func (c *connection) contextLocked(ctx context.Context) context.Context {
	if pendingOf(ctx) != nil {
		return ctx
	}
	var of *pending // a client may have to answer the questions of one request one after the other
	others := false
	for _, p := range slices.Backward(c.pending) {
		others = others || p.other
		if !p.ended && (of == nil || p.asked < of.asked) {
			of = p
		}
	}
	switch {
	case c.key.isShared() && (others || of == nil && c.several):
		return ctx
	case of != nil:
		return withValues{ctx, of}
	case c.last == nil:
		return ctx
	case c.last.Auth != nil:
		ctx = auth.NewContext(ctx, c.last.Auth)
	}
	return WithCaller(ctx, c.last)
}

// asking asks a question of the server. A question that names no request ends when no request is in flight. If the call
// that it was attributed to is over, it is asked for another request.
func asking[Result any](ctx context.Context, c *connection,
	ask func(context.Context) (*Result, error)) (*Result, error) {
	if pendingOf(ctx) != nil {
		return ask(ctx)
	}
	for {
		q := c.ask(ctx)
		result, err := ask(q.ctx)
		if again := q.end(err); !again || ctx.Err() != nil {
			return result, err
		}
	}
}

// question is a question of the server that names no request.
type question struct {
	on     *connection
	of     *pending // the request that it is attributed to; nil if none is in flight
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (c *connection) ask(ctx context.Context) *question {
	q := &question{on: c}
	ctx, q.cancel = context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.ctx = c.contextLocked(ctx)
	if q.of = pendingOf(q.ctx); q.of != nil {
		q.of.asked++
		c.questions = append(c.questions, q)
	}
	return q
}

// end ends the question, and reports whether to ask it again for another request, because the call that it
// was attributed to is over.
func (q *question) end(err error) (again bool) {
	q.cancel(nil)
	if q.of == nil {
		return false
	}
	q.on.mu.Lock()
	defer q.on.mu.Unlock()
	q.on.questions = slices.DeleteFunc(q.on.questions, func(other *question) bool { return other == q })
	q.of.asked--
	q.of.ended = q.of.ended || errors.Is(err, call.ErrCallDone)
	return errors.Is(err, call.ErrCallDone)
}

// withValues is a context that also looks for values in another context.
type withValues struct {
	context.Context
	values context.Context
}

// Value implements context.Context. The embedded context comes first, because package context looks for the cause in
// it.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// allowsLog reports whether to pass on a log message that belongs to no request.
func (c *connection) allowsLog() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now().Unix(); now != c.second {
		c.second, c.late = now, 0
	}
	c.late++
	return c.late <= maxLateLogs
}

// count counts a request of the server, and returns the number so far.
func (p *pending) count() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	return p.made
}

// distinguish returns a digest that differs from the digests of earlier approvals, so that each of several equal
// requests of the server needs its own approval. If the call runs again, its requests get the same digests.
func (p *pending) distinguish(sum string) string {
	if p == nil {
		return sum
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.same == nil {
		p.same = make(map[string]int)
	}
	p.same[sum]++
	return digest.Join([]byte(sum), fmt.Append(nil, p.same[sum]))
}
