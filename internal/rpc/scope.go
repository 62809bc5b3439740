package rpc

import (
	"context"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/callkey"
)

type contextKey struct{}

// NewContext returns a context that carries c. Handlers are given one by Engine.Serve.
func NewContext(ctx context.Context, c *Call) context.Context { return &scope{Context: ctx, call: c} }

// From returns the call that ctx carries, or nil.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(contextKey{}).(*Call)
	return c
}

// Bind makes ctx what the call is served under: the handler's context ends with it,
// and by Cancel. Engine.Serve does it, unless it has been done: whoever may cancel a
// call earlier than that binds it before.
func (c *Call) Bind(ctx context.Context) { c.scope.Context, c.scope.call = ctx, c }

// Cancel ends the handler's context. It does nothing when the handler has returned, and
// to a call that has not been bound. Safe for concurrent use.
func (c *Call) Cancel(cause error) {
	if c.scope.call != nil {
		c.scope.child().cancel(cause)
	}
}

// scope is the context of a handler: a child of the one that the call is served
// under, and with the call in it. It lies in the Call, and asks package context for a
// child that can end only when somebody waits for the end or brings it about. Most
// handlers do neither, and that child costs as much as scanning the request.
type scope struct {
	context.Context // the parent
	call            *Call
	own             atomic.Pointer[child] // nil: it ends when the parent does
}

type child struct {
	context.Context
	cancel context.CancelCauseFunc
}

// ended is the child of every scope whose handler has returned before it had one.
var ended = func() *child {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &child{ctx, cancel}
}()

func (s *scope) child() *child {
	if c := s.own.Load(); c != nil {
		return c
	}
	ctx, cancel := context.WithCancelCause(s.Context)
	if c := (&child{ctx, cancel}); s.own.CompareAndSwap(nil, c) {
		return c
	}
	cancel(nil) // somebody else was faster
	return s.own.Load()
}

// end ends the context, like that of a request that has been answered.
func (s *scope) end() {
	if !s.own.CompareAndSwap(nil, ended) {
		s.own.Load().cancel(nil)
	}
}

// Done implements context.Context.
func (s *scope) Done() <-chan struct{} { return s.child().Done() }

// Err implements context.Context.
func (s *scope) Err() error {
	if c := s.own.Load(); c != nil {
		return c.Err()
	}
	return s.Context.Err()
}

// Value implements context.Context.
func (s *scope) Value(key any) any {
	switch key.(type) {
	case contextKey:
		return s.call
	case callkey.Key:
		return &s.call.Call
	}
	if c := s.own.Load(); c != nil { // where package context finds what ended it
		if v := c.Value(key); v != nil {
			return v
		}
	}
	return s.Context.Value(key)
}
