package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// Stream is where messages go that belong to one call, ahead of its response
// and in order. A transport's connection is one; so is the event stream of an
// HTTP response. Write must be safe for concurrent use and not retain msg.
type Stream interface {
	Write(ctx context.Context, msg []byte) error
}

// Call is one request or notification that this side serves. The era that received it fills in the fields;
// handlers read them. Its bytes are never reused.
type Call struct {
	call.Call

	// ProgressToken is the token of progress notifications; zero if the peer wants none.
	ProgressToken jsonrpc.ID
	// LogLevel is the least severe level of the log messages that the peer wants; empty for none.
	// SetLevel changes it for the session; nil if the request does not ask for that.
	LogLevel mcp.LoggingLevel
	SetLevel func(context.Context, mcp.LoggingLevel) error
	// Mirror gives access to the parts of the request that its transport repeats; nil if it repeats none.
	Mirror Mirror
	// Stream takes notifications; nil if the peer cannot receive any.
	Stream Stream
	// InputRequester puts questions to the peer; nil where it cannot be asked.
	InputRequester InputRequester
	// Subscriber changes the subscriptions of the peer's session; nil if there is no session.
	Subscriber Subscriber
	// SessionNotifier says what belongs to no call; nil where there is no session.
	SessionNotifier SessionNotifier
	// Closing is closed when the server takes no more requests, which ends a call that stays open, such as
	// a subscription. Nil if that never happens.
	Closing <-chan struct{}
	// Expired receives once when the caller's token has expired, which also ends such a call. Nil if
	// it never expires.
	Expired <-chan time.Time
	// Store keeps what must outlive one run of the handler; Engine.Serve sets it.
	Store store.KV

	// Handle, if set, serves the call instead of the engine's handler for the method. It is for the
	// methods that belong to an era, such as initialize.
	Handle Handler

	scope   scope    // the handler's context; see Bind
	encoded *Encoded // the result of the handler, if that came with its encoding

	mu       sync.Mutex
	key      string // see Key
	claimed  map[string]bool
	done     bool
	waiting  bool // for the client's input: see Suspend
	muted    bool // see Mute
	reported bool // progress has been reported
	last     float64
	logs     *logTally     // nil until something is logged
	turn     chan struct{} // held while writing to Stream; made when first needed
}

// Notify sends a notification on the call's stream. Params must be a JSON object,
// or nil. It returns ErrCallDone once the call has ended, and nil without doing
// anything if the peer cannot receive notifications for this call.
func (c *Call) Notify(ctx context.Context, method string, params []byte) error {
	return c.send(ctx, func(dst []byte) []byte {
		dst = jsonrpc.AppendNotification(dst, method, params)
		oneLine(dst)
		return dst
	})
}

// send encodes and writes one message in its turn, so that what is sent for a
// call arrives in the order in which it was sent. An encode that returns nothing
// sends nothing.
func (c *Call) send(ctx context.Context, encode func(dst []byte) []byte) error {
	c.mu.Lock()
	if err := c.over(); err != nil || c.Stream == nil || c.muted {
		c.mu.Unlock()
		return err
	}
	if c.turn == nil {
		c.turn = make(chan struct{}, 1)
	}
	c.mu.Unlock()

	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	c.mu.Lock()
	var msg []byte
	over := c.over()
	if over == nil {
		msg = encode(make([]byte, 0, 160))
	}
	c.mu.Unlock()
	if len(msg) == 0 {
		return over
	}
	return c.Stream.Write(ctx, msg)
}

// over returns why nothing more may be sent for the call, or nil: its handler has
// returned, it waits for its client, or the peer does not want to hear of it
// anymore, whatever context the sender has (2026-07-28, basic/transports/stdio,
// Cancellation). It is called with mu held.
func (c *Call) over() error {
	switch {
	case c.waiting:
		return ErrInputRequired
	case c.done, c.scope.call != nil && c.scope.Err() != nil:
		return call.ErrCallDone
	}
	return nil
}

// Finish makes the call inert. It returns when nothing that was sent for the call
// is still being written, so that the response comes last.
func (c *Call) Finish() {
	c.mu.Lock()
	c.done = true
	turn := c.turn
	c.mu.Unlock()
	if turn != nil {
		turn <- struct{}{}
		<-turn // whoever still waits finds the call done
	}
}
