package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// Handler serves the calls of one method, inside the middleware. See [call.Handler] for its result and error.
type Handler func(ctx context.Context, c *Call) (result any, err error)

// Engine serves calls: it finds a method's handler and runs it inside the
// middleware. It must not be changed once it serves; the zero Engine knows no method.
type Engine struct {
	Store store.KV // for Call.Store
	// Scopes returns the scopes that a call needs, of which no more than method, params
	// and principal need be there; nil: none needs any.
	Scopes   func(*call.Call) []string
	Logger   *slog.Logger // nil: slog.Default()
	handlers map[string]Handler
	wrapped  call.Handler
}

// NewEngine makes an engine of handlers by method. The first middleware is the outermost.
func NewEngine(handlers map[string]Handler, logger *slog.Logger, middleware ...call.Middleware) *Engine {
	e := &Engine{Logger: logger, handlers: handlers}
	e.wrapped = e.dispatch
	for i := len(middleware) - 1; i >= 0; i-- {
		e.wrapped = middleware[i](e.wrapped)
	}
	return e
}

// Has reports whether a peer of revision r can call method here.
func (e *Engine) Has(method string, r mcp.Revision) bool {
	if _, ok := e.handlers[method]; !ok {
		return false
	}
	if revision.LeavesToExtensions(method, r) {
		return true
	}
	row := revision.Lookup(method)
	return row != nil && row.In(r)
}

// AcceptsNotification reports whether a notification that a client of revision r sends has a handler
// here. Most have none: they are the business of the era.
func (e *Engine) AcceptsNotification(method string, r mcp.Revision) bool {
	if _, ok := e.handlers[method]; !ok {
		return false
	}
	if revision.LeavesToExtensions(method, r) {
		return true
	}
	row := revision.Lookup(method)
	return row != nil && row.Notification && row.In(r) && row.From(r)&revision.Client != 0
}

func (e *Engine) logger() *slog.Logger {
	if e.Logger != nil {
		return e.Logger
	}
	return slog.Default()
}

// Serve runs the call and returns its result. A panic becomes an internal error and a log line. The
// error, if any, is always a *jsonrpc.Error that may be sent to the peer.
func (e *Engine) Serve(ctx context.Context, c *Call) (result any, err error) {
	if c.scope.call == nil {
		c.Bind(ctx)
	}
	ctx, c.Store = &c.scope, e.Store
	defer func() {
		c.reportLost(ctx)
		c.Finish()
		c.scope.end()
		if v := recover(); v != nil {
			e.logger().ErrorContext(ctx, "panic while serving a call", "method", c.Method(), "panic", v, "stack", string(debug.Stack()))
			result, err = nil, errInternal
		}
	}()
	handle := e.wrapped
	if handle == nil {
		handle = e.dispatch
	}
	result, err = handle(ctx, &c.Call)
	if err != nil {
		return nil, e.wire(ctx, c, err)
	}
	return result, nil
}

// ServeNotification runs the handler of a notification and returns with it.
func (e *Engine) ServeNotification(ctx context.Context, c *Call) {
	Isolate(func() { _, _ = e.Serve(ctx, c) })
}

// Isolate runs f in another goroutine and waits for it, so that a handler that calls runtime.Goexit does not
// end the goroutine that reads from a connection.
func Isolate(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// errInternal is all that a peer hears of what went wrong in here.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}

// errOtherCall is the error of middleware that breaks the contract of call.Middleware.
var errOtherCall = errors.New("middleware must pass on the call that it received, with a context that is derived from the one that it received")

// dispatch is the innermost handler: it finds the handler of the method and runs it.
func (e *Engine) dispatch(ctx context.Context, public *call.Call) (any, error) {
	c := From(ctx)
	if c == nil || &c.Call != public {
		return nil, errOtherCall
	}
	h := c.Handle
	if h == nil && e.Has(c.Method(), c.Revision()) {
		h = e.handlers[c.Method()]
	}
	if h == nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is not available in revision %s of this server", c.Method(), c.Revision())
	}
	if err := e.authorize(ctx, &c.Call); err != nil {
		return nil, err
	}
	result, err := h(ctx, c)
	if c.InputRequester != nil {
		result, err = c.InputRequester.Finish(ctx, result, err)
	}
	if encoded, ok := result.(*Encoded); ok {
		c.encoded = encoded
		return encoded.Result, err
	}
	return result, err
}

// wire makes an error that may be shown to the peer. What is not made for it
// stays in the log: errors of a program's own can hold anything.
func (e *Engine) wire(ctx context.Context, c *Call, err error) error {
	var known *jsonrpc.Error
	if errors.As(err, &known) {
		switch {
		case known == nil: // not even its text can be asked for
			err = errors.New("a nil *jsonrpc.Error was returned as an error")
		case len(known.Data) > 0 && jsonrpc.Check(known.Data, jsonrpc.Limits{}) != nil:
			e.logger().WarnContext(ctx, "the data of an error is left out: it is not JSON", "method", c.Method(), "error", known.Message)
			return &jsonrpc.Error{Code: known.Code, Message: known.Message}
		default:
			return known
		}
	}
	var required *URLRequiredError
	if errors.As(err, &required) {
		return required.wire(ctx, c)
	}
	var missing *call.CapabilityError
	if errors.As(err, &missing) {
		return capabilityError(missing, c.Revision())
	}
	var lacking *auth.ScopeError
	if errors.As(err, &lacking) {
		challenge.AddMissing(ctx, lacking.Needed)
		return lackingScope(lacking)
	}
	if ctx.Err() == nil {
		e.logger().ErrorContext(ctx, "call failed", "method", c.Method(), "error", err)
	}
	return errInternal
}

// lackingScope says to the peer what it lacks. The protocol has no code for it: what
// clients go by is the challenge that HTTP carries beside it.
func lackingScope(e *auth.ScopeError) *jsonrpc.Error {
	data, _ := json.Marshal(struct {
		RequiredScopes []string `json:"requiredScopes"`
	}{e.Needed})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: e.Error(), Data: data}
}

// AppendReply runs the call and appends its response to dst, on one line. It
// returns the error too that the response reports, if it does. Identity is what a
// modern server says of itself in each result; see revision.AppendResult.
func (e *Engine) AppendReply(ctx context.Context, dst []byte, c *Call, identity []byte) ([]byte, *jsonrpc.Error) {
	result, err := e.Serve(ctx, c)
	start := len(dst)
	if err == nil {
		var reply []byte
		if reply, err = appendResult(dst, c, result, identity); err == nil {
			return reply, nil
		}
		err = e.wire(ctx, c, err)
	}
	reported := revision.DowngradeError(c.Revision(), err.(*jsonrpc.Error))
	dst = jsonrpc.AppendError(dst[:start], c.ID(), reported, false)
	oneLine(dst[start:])
	return dst, reported
}

// appendResult appends the response with result. The encoding of a handler's result may panic.
func appendResult(dst []byte, c *Call, result any, identity []byte) (reply []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			reply, err = nil, fmt.Errorf("the result cannot be encoded: panic: %v\n%s", v, debug.Stack())
		}
	}()
	if result == nil {
		return nil, errors.New("the handler returned neither a result nor an error")
	}
	if e := c.encoded; e != nil && e.Result == result {
		if err := e.check(); err != nil {
			return nil, err
		}
		dst = append(jsonrpc.AppendResultHead(dst, c.ID()), e.JSON...)
		return append(dst, '}'), nil
	}
	reply, err = revision.AppendResult(jsonrpc.AppendResultHead(dst, c.ID()), c.Revision(), result, identity)
	return append(reply, '}'), err
}

// oneLine takes the line breaks out of a message, which is one line on a stream
// and one event's data over HTTP. Raw JSON of a handler's may have them, and then
// only as space: within a string they are escaped.
func oneLine(message []byte) {
	for _, lineBreak := range [...]byte{'\n', '\r'} {
		for rest := message; ; {
			i := bytes.IndexByte(rest, lineBreak)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
