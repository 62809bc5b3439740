package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/callkey"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// Call is one request or notification that this side serves. The era that received it sets the
// fields; handlers read them. The bytes of the request are not reused.
type Call struct {
	call.Call

	// ProgressToken is the token of progress notifications; zero if the peer wants none.
	ProgressToken jsonrpc.ID
	// LogLevel is the least severe level of the log messages that the peer wants; empty for none.
	LogLevel mcp.LoggingLevel
	// Binding gives access to the parts of the request that its transport repeats; nil if it repeats none.
	Binding Binding
	// Stream takes notifications; nil if the peer cannot receive any.
	Stream Stream
	// InputRequester sends input requests to the peer; nil if it cannot receive any.
	InputRequester InputRequester
	// Subscriber changes the subscriptions of the session; nil if there is no session.
	Subscriber Subscriber
	// SessionNotifier sends notifications on the stream of the session; nil if there is no session.
	SessionNotifier SessionNotifier
	// Closing is closed when the server stops, which ends a long-lived call; nil if that does not happen.
	Closing <-chan struct{}
	// Expired receives once when the caller's token expires, which ends a long-lived call; nil if it does not expire.
	Expired <-chan time.Time
	// Store keeps what must outlive one run of the handler. Engine.Serve sets it.
	Store store.KV
	// ExitResult is the result if the handler calls runtime.Goexit; nil means an internal error.
	// The handler of tools/call sets it when a tool exits.
	ExitResult *mcp.CallToolResult
	// Target serves the call. The engine sets it, except for methods that belong to an era; see EraTarget.
	Target Target
	// Overload is the limit that has rejected the call, if one has. The engine sets it.
	Overload *call.OverloadError
	// Served means that Engine.Serve has begun. A call that is not served was rejected by the rules of its era.
	Served bool
	// Ran means that code of the program has begun to serve the call, so that an error is not a fault of the request,
	// whatever its code. The targets of calls that may have effects set it.
	Ran bool

	handlerContext handlerContext
	inflight       *Inflight // the call is in flight there; nil if it was not accepted
	handed         *Handed   // the result that middleware received, if the handler returned an Encoded
	forwarding     atomic.Pointer[Forwarding]

	mu       sync.Mutex
	rounds   *rounds // nil until needed
	resolved bool    // Target is authorized for the params that the client has sent, for one run
	done     bool
	waiting  bool  // see Suspend
	reported bool  // progress was reported
	made     int32 // see Notified
	last     float64
	logs     *logCounter   // nil until the first log message
	writing  chan struct{} // held while writing to Stream; made when first needed
}

// Handler serves the calls of one method, inside the middleware. See call.Handler for its
// result and error. The result may be an *Encoded.
type Handler func(ctx context.Context, c *Call) (result any, err error)

// Target serves a call.
type Target struct {
	Serve Handler
	Entry any // for Serve: what the call names, such as a tool
}

// Stream takes the messages that belong to one call, in order and ahead of its response. It is a connection or the
// event stream of an HTTP response. Write must be safe for concurrent use and must not retain msg.
type Stream interface {
	Write(ctx context.Context, msg []byte) error
}

// Connected reports whether the client can receive messages of the call now. It does not block.
func (c *Call) Connected() bool {
	if s, ok := c.Stream.(interface{ Connected() bool }); ok {
		return s.Connected()
	}
	return c.Stream != nil
}

// Can reports whether the revision of the call has a feature. Features of a server ask the call
// instead of comparing revisions.
func (c *Call) Can(f revision.Feature) bool { return f.In(c.Revision()) }

// ended returns an error if nothing more may be sent for the call: its handler has returned, it waits for its client,
// or the peer has cancelled it (2026-07-28, basic/transports/stdio, Cancellation). It is called with mu held.
func (c *Call) ended() error {
	switch {
	case c.waiting:
		return ErrInputRequired
	case c.done, c.handlerContext.call != nil && c.handlerContext.Err() != nil:
		return call.ErrCallDone
	}
	return nil
}

// Subscriber changes the subscriptions of a session.
type Subscriber interface {
	// Subscribe subscribes the session to updates of a resource. A second subscription to the
	// resource has no effect. The error is a *jsonrpc.Error if there are too many resources.
	Subscribe(ctx context.Context, uri string) error
	// Unsubscribe ends the subscription to a resource, if there is one.
	Unsubscribe(ctx context.Context, uri string) error
}

// SessionNotifier sends messages that belong to no call, on the stream of the session.
type SessionNotifier interface {
	// SessionID identifies the session among all sessions of the server, of this replica and of others.
	SessionID() string
	// SetLevel changes the log level of the session.
	SetLevel(ctx context.Context, level mcp.LoggingLevel) error
	// Notify sends an encoded notification. Without a stream it waits for the next one. The oldest
	// are dropped if too many wait.
	Notify(notification []byte)
	// NotifyWhenDone sends n after n.Done has returned true, which may be after the call has ended. It reports false
	// if it will not, because the session has ended or too many notifications are waiting. The context provides values
	// only.
	NotifyWhenDone(ctx context.Context, n DeferredNotification) bool
	// Listens reports whether the client may receive messages now: its stream is open, or another replica may have the
	// stream.
	Listens() bool
	// RequestInput sends an input request and returns the client's response.
	RequestInput(ctx context.Context, r InputRequest) (json.RawMessage, error)
}

// DeferredNotification is a notification that is sent when an activity has ended.
type DeferredNotification struct {
	Method string
	Params []byte // a JSON object
	// Done is called repeatedly until it returns true or an error.
	Done    func(ctx context.Context) (bool, error)
	Timeout time.Duration // how long Done is called
}

// Errors of input requests.
var (
	// ErrInputRequired is call.ErrInputRequired.
	ErrInputRequired = call.ErrInputRequired
	// ErrCannotAsk is returned if the call cannot send input requests: its method is not tools/call, prompts/get or
	// resources/read, or its client takes no messages before the response.
	ErrCannotAsk = errors.New("this call cannot send requests to its client")
	// ErrClientLeft is returned if the client of a session has disconnected and does not return.
	// It wraps call.ErrCancelled.
	ErrClientLeft = fmt.Errorf("the client has disconnected, so it cannot answer: %w", call.ErrCancelled)
	// ErrUnsupported is returned for a feature that the revision of the protocol or the connection does not have.
	ErrUnsupported error = revision.MissingFeature("not supported by the revision of the protocol or the connection " +
		"of this call")
)

// InputRequest is a request of the server to the client whose call it serves.
type InputRequest struct {
	// Key identifies the request within the call, so that its response is found when the handler runs again. If it is
	// empty, it is derived from the method, the params and the number of equal requests before it.
	Key    string
	Method string // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage
	// Within is how long the client may take to respond in a session. 0 means the default of the
	// method. A client of 2025-11-25 that supports it runs a request with another Within as a task.
	Within time.Duration
}

// InputRequester sends input requests to the client of a call. The era decides how: as requests
// of the server, or in a result that asks the client to repeat the call.
type InputRequester interface {
	// RequestInput sends all requests at the same time and returns the responses in their order.
	RequestInput(ctx context.Context, c *Call, requests []InputRequest) ([]json.RawMessage, error)
	// Finish returns the outcome of the call, given what the handler returned. The context
	// carries the call and may have ended.
	Finish(ctx context.Context, result any, err error) (any, error)
}

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

// CaseVariant returns the first member of params whose name differs from one of known only in its case, such as "Name"
// for "name". A lenient parser would take it for the known member, and a strict one would ignore it.
func CaseVariant(params *jsonrpc.Members, known ...string) (string, bool) {
	for name := range params.All() {
		if jsonscan.IsVariant(name, known) {
			return name, true
		}
	}
	return "", false
}
