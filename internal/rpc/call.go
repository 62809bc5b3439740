package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
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
	// Mirror gives access to the parts of the request that its transport repeats; nil if it repeats none.
	Mirror Mirror
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
	resolved bool    // Target is authorized, for one run
	done     bool
	waiting  bool  // see Suspend
	reported bool  // progress was reported
	made     int32 // see Notified
	last     float64
	logs     *logCounter   // nil until the first log message
	writing  chan struct{} // held while writing to Stream; made when first needed
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

// Notify sends a notification on the call's stream. Params must be a JSON object, or nil. It returns call.ErrCallDone
// once the call has ended, and nil without sending anything if the peer cannot receive notifications for the call.
func (c *Call) Notify(ctx context.Context, method string, params []byte) error {
	return c.send(ctx, func(dst []byte) []byte {
		dst = jsonrpc.AppendNotification(dst, method, params)
		jsonscan.ReplaceLineBreaks(dst)
		return dst
	})
}

// Send sends one message on the call's stream.
func (c *Call) Send(ctx context.Context, msg []byte) error {
	if c.Stream == nil {
		return ErrCannotAsk
	}
	return c.send(ctx, func([]byte) []byte { return msg })
}

// send encodes and writes one message. Messages arrive in the order in which they were sent. If
// encode returns nothing, nothing is sent. It runs with mu held.
func (c *Call) send(ctx context.Context, encode func(dst []byte) []byte) error {
	c.mu.Lock()
	err := c.ended()
	c.mu.Unlock()
	if err != nil || c.Stream == nil {
		return err
	}
	if err := c.lockStream(ctx); err != nil {
		return err
	}
	defer c.unlockStream()
	c.mu.Lock()
	var msg []byte
	ended := c.ended()
	if ended == nil {
		msg = encode(make([]byte, 0, 160))
	}
	if len(msg) > 0 {
		if c.made++; c.rounds != nil && c.rounds.muted > 0 {
			c.rounds.muted--
			msg = nil
		}
	}
	c.mu.Unlock()
	if len(msg) == 0 {
		return ended
	}
	return c.Stream.Write(ctx, msg)
}

// lockStream waits until no other message is being written to the stream.
func (c *Call) lockStream(ctx context.Context) error {
	c.mu.Lock()
	if c.writing == nil {
		c.writing = make(chan struct{}, 1)
	}
	c.mu.Unlock()
	select {
	case c.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Call) unlockStream() { <-c.writing }

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

// Finish ends the call: nothing more can be sent for it. It reports the log messages that were dropped, and waits for a
// message that is being written, so that the response comes last.
func (c *Call) Finish() {
	c.mu.Lock()
	if c.logs != nil && c.logs.dropped > 0 {
		c.mu.Unlock()
		_ = c.reportDropped(c.Context(), true)
		c.mu.Lock()
	}
	c.done = true
	writing := c.writing
	c.mu.Unlock()
	if writing != nil {
		writing <- struct{}{}
		<-writing
	}
}

// Subscriber changes the subscriptions of a session.
type Subscriber interface {
	// Subscribe subscribes the session to updates of a resource. A second subscription to the
	// resource has no effect. The error is a *jsonrpc.Error if there are too many resources.
	Subscribe(ctx context.Context, uri string) error
	// Unsubscribe ends the subscription to a resource, if there is one.
	Unsubscribe(ctx context.Context, uri string) error
}

// StreamCloser is implemented by a Stream whose connection can end while the stream continues.
// The error is ErrUnsupported if it cannot.
type StreamCloser interface {
	CloseStream(ctx context.Context, retry time.Duration) error
}

// CloseStream ends the connection of the call's stream while the call continues; see server.CloseStream. It returns
// ErrUnsupported if the stream cannot do that, and call.ErrCallDone once the call has ended.
func (c *Call) CloseStream(ctx context.Context, retry time.Duration) error {
	c.mu.Lock()
	err := c.ended()
	closer, ok := c.Stream.(StreamCloser)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if !ok {
		return ErrUnsupported
	}
	// Earlier messages are sent first, and the call cannot end meanwhile.
	if err := c.lockStream(ctx); err != nil {
		return err
	}
	defer c.unlockStream()
	c.mu.Lock()
	err = c.ended()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return closer.CloseStream(ctx, retry)
}
