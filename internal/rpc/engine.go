package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Engine serves calls: it runs the middleware, finds the target of a call, checks the scopes that the call needs, and
// runs the target. Its fields must not change once it serves. It is safe for concurrent use.
type Engine struct {
	Store store.KV // for Call.Store
	// Auth contains the scopes that all requests, and the requests of a method, need; nil for none.
	Auth   *auth.ProtectedResource
	Logger *slog.Logger // nil means slog.Default()
	// Identity is the server's mcp.Implementation as JSON, which is sent with every result of 2026-07-28; nil for none.
	Identity []byte
	// Opaque means that the middleware does not look at results: it receives an *Encoded
	// itself. NewEngine sets it if there is no middleware.
	Opaque bool

	feature Feature
	wrapped call.Handler

	overloads loglimit.Limiter
}

// NewEngine returns an engine for a feature with this middleware, the first outermost.
func NewEngine(feature Feature, logger *slog.Logger, middleware ...call.Middleware) *Engine {
	e := &Engine{Logger: logger, Opaque: len(middleware) == 0, feature: feature}
	e.wrapped = e.dispatch
	for i := len(middleware) - 1; i >= 0; i-- {
		e.wrapped = middleware[i](e.wrapped)
	}
	return e
}

func (e *Engine) logger() *slog.Logger {
	if e.Logger != nil {
		return e.Logger
	}
	return slog.Default()
}

// Serve runs the call and returns its result. A panic becomes an internal error and is logged.
// The error, if any, is always a *jsonrpc.Error for the peer. If a handler calls runtime.Goexit,
// Serve logs that and does not return; see AppendReply.
func (e *Engine) Serve(ctx context.Context, c *Call) (result any, err error) {
	if c.handlerContext.call == nil {
		c.Bind(ctx)
	}
	ctx, c.Store, c.Served = &c.handlerContext, e.Store, true
	returned := false
	defer func() {
		c.Finish()
		if own := &c.handlerContext.own; !own.CompareAndSwap(nil, endedChild) { // ends the context
			own.Load().cancel(nil)
		}
		if v := recover(); v != nil {
			e.logger().ErrorContext(ctx, "panic in a call", "method", c.Method(), "panic", v, "stack",
				string(debug.Stack()))
			result, err = nil, errInternal
		} else if !returned && c.ExitResult == nil {
			e.logger().ErrorContext(ctx, "runtime.Goexit in a call", "method", c.Method(), "stack",
				string(debug.Stack()))
		}
	}()
	result, err = e.wrapped(ctx, &c.Call)
	if errors.Is(err, ErrInputRequired) && c.InputRequester != nil { // middleware has asked a question
		result, err = c.InputRequester.Finish(ctx, nil, err)
	}
	returned = true
	if err != nil {
		return nil, e.ErrorOf(ctx, c, err)
	}
	return result, nil
}

// ServeNotification runs the handler of a notification and returns with it.
func (e *Engine) ServeNotification(ctx context.Context, c *Call) {
	Isolate(func() { _, _ = e.Serve(ctx, c) })
}

// Isolate runs f in another goroutine and waits for it, so that a handler that calls
// runtime.Goexit does not end the goroutine that reads from a connection.
func Isolate(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// ErrOtherCall is the error of middleware that breaks the contract of call.Middleware.
var ErrOtherCall = errors.New("middleware must pass on the call that it received, with a context that is derived " +
	"from the one that it received")

// dispatch is the innermost handler. A call that lacks scopes is rejected before the error of its target, so that a
// client cannot find out what the server has.
func (e *Engine) dispatch(ctx context.Context, public *call.Call) (result any, err error) {
	c := From(ctx)
	if c == nil || &c.Call != public {
		return nil, ErrOtherCall
	}
	if !c.resolved || c.Params() != c.ParamsBefore() { // otherwise Authorize has decided
		var needs []string
		needs, err = e.resolve(ctx, c)
		if err := auth.Require(ctx, needs...); err != nil {
			return nil, err
		}
	}
	c.resolved = false // middleware may serve the call again, which is another decision
	if err == nil {
		result, err = c.Target.Serve(ctx, c)
	}
	if c.InputRequester != nil {
		result, err = c.InputRequester.Finish(ctx, result, err)
	}
	if encoded, ok := result.(*Encoded); ok && !e.Opaque {
		c.handed = Hand(encoded)
		return c.handed.Copy, err
	}
	return result, err
}

// AcceptsNotification reports whether the engine has a handler for a notification from a client
// of revision r. The eras handle most notifications themselves.
func (e *Engine) AcceptsNotification(method string, r mcp.Revision) bool {
	return revision.FromClient(method, r, true) && e.feature.Handles(method)
}

// resolve sets the target of a call, and returns the scopes that the call needs, even with an error: the scopes of all
// requests, of the method and of the target.
func (e *Engine) resolve(ctx context.Context, c *Call) (needs []string, err error) {
	var t Target
	switch _, own := c.Target.Entry.(ofEra); {
	case own:
		t = c.Target
	case revision.FromClient(c.Method(), c.Revision(), c.ID().IsZero()):
		t, needs, err = e.feature.Resolve(ctx, c)
	default:
		err = MethodNotFound(c)
	}
	if e.Auth != nil {
		needs = union(e.Auth.MethodScopes[c.Method()], needs)
		if c.Principal() != principal.Local && !c.ID().IsZero() { // the transport authorizes notifications
			needs = union(e.Auth.Scopes, needs)
		}
	}
	if t.Serve != nil && len(needs) > 0 {
		t.Serve = requiring(needs, t.Serve)
	}
	c.Target, c.resolved = t, err == nil
	return needs, err
}

// requiring returns a handler whose errors about missing scopes name the scopes that the call needed before it was
// served, too. A client may ask for exactly the scopes of an error, and the next token must still allow the call.
func requiring(needs []string, serve Handler) Handler {
	return func(ctx context.Context, c *Call) (any, error) {
		result, err := serve(ctx, c)
		if missing, ok := errors.AsType[*auth.ScopeError](err); ok {
			err = &auth.ScopeError{Needed: union(needs, missing.Needed)}
		}
		return result, err
	}
}

func union(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return challenge.Union(a, b)
}

// Authorize checks the scopes of calls before they are served, all together, for a transport that needs the outcome
// then. Without calls it checks the scopes that every request needs. The error is nil or an *auth.ScopeError. The calls
// fail with it when they are served. Otherwise those whose targets were found are served by these, without another
// check; Serve looks for the targets of the others.
func (e *Engine) Authorize(ctx context.Context, calls ...*Call) error {
	var needs []string
	if len(calls) == 0 && e.Auth != nil {
		needs = e.Auth.Scopes
	}
	for _, c := range calls {
		of, _ := e.resolve(NewContext(ctx, c), c) // Serve returns the error
		needs = union(needs, of)
	}
	err := auth.Require(ctx, needs...)
	if err != nil {
		for _, c := range calls {
			c.Target, c.resolved = Target{Serve: func(context.Context, *Call) (any, error) { return nil, err }}, true
		}
	}
	return err
}

// AppendReply runs a call that is in flight, or at least bound to a context, and appends its response to *dst, on one
// line. If the response reports an error, AppendReply returns that error too. It appends nothing if the peer has
// cancelled the request.
//
// If a handler calls runtime.Goexit, AppendReply appends the response as for a panic but does
// not return, because the goroutine ends. The caller sends *dst in a deferred function.
func (e *Engine) AppendReply(dst *[]byte, c *Call) (reported *jsonrpc.Error) {
	start, served := len(*dst), false
	defer func() {
		switch {
		case served:
		case c.ExitResult != nil:
			e.appendOutcome(dst, c, c.ExitResult, nil)
		default:
			e.appendOutcome(dst, c, nil, errInternal)
		}
		if c.inflight != nil && !c.inflight.End(c.ID()) {
			*dst = (*dst)[:start]
		}
	}()
	result, err := e.Serve(c.handlerContext.Context, c)
	reported = e.appendOutcome(dst, c, result, err)
	served = true
	return reported
}

// appendOutcome appends the response with a result or, if err is not nil, with an error.
func (e *Engine) appendOutcome(dst *[]byte, c *Call, result any, err error) (reported *jsonrpc.Error) {
	if err == nil {
		var reply []byte
		if reply, err = e.appendResult(*dst, c, result); err == nil {
			*dst = reply
			return nil
		}
		err = e.ErrorOf(c.handlerContext.Context, c, err)
	}
	reported = revision.DowngradeError(c.Revision(), err.(*jsonrpc.Error))
	start := len(*dst)
	*dst = jsonrpc.AppendError(*dst, c.ID(), reported, false)
	jsonscan.ReplaceLineBreaks((*dst)[start:])
	return reported
}

// appendResult appends the response with result. The encoding of a handler's result may panic.
func (e *Engine) appendResult(dst []byte, c *Call, result any) (reply []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			reply, err = nil, fmt.Errorf("cannot encode the result: panic: %v\n%s", v, debug.Stack())
		}
	}()
	if result == nil {
		return nil, errors.New("the handler must return a result or an error")
	}
	dst = append(c.ID().Append(append(dst, `{"jsonrpc":"2.0","id":`...)), `,"result":`...)
	encoded, ok := result.(*Encoded)
	if !ok {
		encoded, ok = c.handed.Unchanged(result)
	}
	if ok {
		return append(encoded.Append(dst), '}'), nil
	}
	reply, err = revision.AppendResult(dst, c.Revision(), result, e.Identity)
	return append(reply, '}'), err
}
