package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Errors that a handler meets when it uses a Call out of place.
var (
	// ErrCallDone is returned to whoever uses a call after its handler has
	// returned, or after the peer has cancelled it.
	ErrCallDone = errors.New("the call is done: nothing more can be sent for it")
	// ErrNoCall is returned where the context is not that of a handler.
	ErrNoCall = errors.New("the context carries no call: use the one that the handler received")
)

// Stream is where messages go that belong to one call, ahead of its response
// and in order. A transport's connection is one; so is the event stream of an
// HTTP response. Write must be safe for concurrent use and not retain msg.
type Stream interface {
	Write(ctx context.Context, msg []byte) error
}

// Call is one request, or notification, being served. The era room that received
// it fills it in; handlers and middleware read it. Its bytes are never recycled.
//
// A client's middleware sees the requests that it makes as Calls too, with a method,
// params and a revision, and nothing to ask or to report to.
type Call struct {
	Method    string
	ID        jsonrpc.ID       // zero for a notification
	Params    *jsonrpc.Members // never nil
	RawParams []byte           // the params object, nil if absent
	Revision  mcp.Revision
	Peer      Peer
	Principal principal.Principal

	// ProgressToken is the token under which the peer wants to hear of progress,
	// zero if it does not.
	ProgressToken jsonrpc.ID
	// LogLevel is the least severe level that the peer wants to be told of; empty for
	// none. SetLevel changes it for the session; nil where that is not being asked for.
	LogLevel mcp.LoggingLevel
	SetLevel func(context.Context, mcp.LoggingLevel) error
	// Mirror is what the request's binding repeats of it; nil where it repeats nothing.
	Mirror Mirror
	// Source tells peers apart that nobody has authenticated: a session's id, or an
	// address. It is for limits, and not to be shown.
	Source string
	// Stream takes notifications; nil if the peer cannot receive any.
	Stream Stream
	// Asker puts questions to the peer; nil where it cannot be asked.
	Asker Asker
	// Subscriber changes what the peer's session is subscribed to; nil where there is
	// no session.
	Subscriber Subscriber
	// Voice says what belongs to no call; nil where there is no session.
	Voice Voice
	// Closing is closed when whoever serves the call takes no more requests. A call that
	// stays open, as a subscription does, ends then. Nil: that never happens.
	Closing <-chan struct{}
	// Expired tells once that the caller's token has expired, which ends such a call
	// too. Nil: it never does.
	Expired <-chan time.Time
	// Store keeps what must outlive a run of the handler; set by Engine.Serve.
	Store store.KV

	scope    scope     // the handler's context; see Bind
	outgoing *outgoing // of a request of this side's, see Sending

	mu       sync.Mutex
	key      string // see Key
	claimed  map[string]bool
	done     bool
	waiting  bool // for the client's input: see Suspend
	muted    bool // see Mute
	reported bool // progress has been reported
	last     float64
	logs     *logTally     // nil until something is logged
	turn     chan struct{} // held by whoever is writing to Stream; made when first needed
}

// Extension returns the settings with which the peer has declared an extension, a JSON
// object, and false if it has not: on this request or, in a session, in the handshake,
// where the extension is one of the experimental capabilities.
func (c *Call) Extension(id string) (settings json.RawMessage, ok bool) {
	declared := c.Peer.Capabilities
	if declared == nil {
		return nil, false
	}
	settings, ok = declared.Extensions[id]
	if !ok && !c.Revision.Modern() {
		settings, ok = declared.Experimental[id]
	}
	return settings, ok && len(settings) > 0 && settings[0] == '{'
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
		return ErrCallDone
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
