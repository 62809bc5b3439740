package rpc

import (
	"context"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/callkey"
)

type contextKey struct{}

// NewContext returns a context that carries c before Engine.Serve, which makes the contexts of handlers.
func NewContext(ctx context.Context, c *Call) context.Context {
	return &handlerContext{Context: ctx, call: c}
}

// From returns the call that ctx carries, or nil.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(contextKey{}).(*Call)
	return c
}

// Bind sets the parent of the handler's context. The context also ends by Cancel. Engine.Serve
// calls Bind unless the caller has; a caller that may cancel the call earlier must.
func (c *Call) Bind(ctx context.Context) { c.handlerContext.Context, c.handlerContext.call = ctx, c }

// Context returns the handler's context. Bind must have been called.
func (c *Call) Context() context.Context { return &c.handlerContext }

// Cancel ends the handler's context. It has no effect after the handler has returned and before
// Bind. It is safe for concurrent use.
func (c *Call) Cancel(cause error) {
	if c.handlerContext.call != nil {
		c.handlerContext.child().cancel(cause)
	}
}

// handlerContext is the context of a handler: a child of the context that the call is served under, with the call as a
// value. It is part of the Call. It creates a child with package context only when a handler waits for its end or
// something ends it, because that costs as much as scanning the request and most handlers need neither.
type handlerContext struct {
	context.Context // the parent
	call            *Call
	own             atomic.Pointer[child] // nil while it ends with the parent
}

type child struct {
	context.Context
	cancel context.CancelCauseFunc
}

// endedChild is the child of every context whose handler has returned before it had one.
var endedChild = func() *child {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(nil)
	return &child{ctx, cancel}
}()

func (h *handlerContext) child() *child {
	if c := h.own.Load(); c != nil {
		return c
	}
	ctx, cancel := context.WithCancelCause(h.Context)
	if c := (&child{ctx, cancel}); h.own.CompareAndSwap(nil, c) {
		return c
	}
	cancel(nil) // another goroutine has stored a child
	return h.own.Load()
}

// Done implements context.Context.
func (h *handlerContext) Done() <-chan struct{} { return h.child().Done() }

// Err implements context.Context.
func (h *handlerContext) Err() error {
	if c := h.own.Load(); c != nil {
		return c.Err()
	}
	return h.Context.Err()
}

// Value implements context.Context.
func (h *handlerContext) Value(key any) any {
	switch key.(type) {
	case contextKey:
		return h.call
	case callkey.Key:
		return &h.call.Call
	}
	if c := h.own.Load(); c != nil { // context.Cause finds the cause in it
		if v := c.Value(key); v != nil {
			return v
		}
	}
	return h.Context.Value(key)
}
