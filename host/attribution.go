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

// Whose request a message of a server belongs to, if it names none: connection.context decides.

// maxLateLogs is the maximum number of log messages without a request in one second. Others are dropped.
const maxLateLogs = 256

// pending is a request in flight. It is the context of the request to the server.
type pending struct {
	context.Context
	on    *connection
	other bool // its caller is not the user of this machine

	// Guarded by connection.mu.
	asked int  // questions of the server that wait for an answer
	ended bool // the call of its caller has ended, as a question has found out

	mu   sync.Mutex
	made int            // requests of the server meanwhile
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

// begin begins a request. End must follow.
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

// context returns the context of a message of the server. If the protocol does not say to which request it belongs,
// that is the newest one in flight, or the last caller, unless it may be that of several people: then it is nobody's.
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

// asking asks a question of the server. If nothing says to which request it belongs, it ends when none is in flight any
// more, and is asked for another one if the caller of the first has its answer meanwhile.
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
	of     *pending // nil if none is in flight
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

// end ends the question, and reports whether it belongs to another request, because its own has ended.
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

// withValues is a context with the values of another one.
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

// allowsLog reports whether a log message is passed on that belongs to no request.
func (c *connection) allowsLog() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now().Unix(); now != c.second {
		c.second, c.late = now, 0
	}
	c.late++
	return c.late <= maxLateLogs
}

// count counts a request of the server, and returns their number.
func (p *pending) count() int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	return p.made
}

// distinguish returns a digest that differs from those of earlier approvals, so that each of several equal requests
// of the server has an approval of its own. If the call runs again, its requests have the same digests.
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
