package streamserver

import (
	"context"
	"errors"
	"log/slog"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// read reads messages until the turn ends, reading ends or the connection fails.
func (t *turn) read() {
	c := t.c
	for !t.over {
		data, err := t.next()
		switch {
		case t.over:
		case err == nil:
			c.received = true
			t.receive(c.calls, data)
		case !c.rejectTooLarge(err):
			c.failed <- err
			return
		}
	}
}

// next returns the next message. It flushes before it waits.
func (t *turn) next() ([]byte, error) {
	c := t.c
	if c.reading.Err() == nil {
		if data := c.conn.ReadBuffered(); data != nil {
			return data, nil
		}
		if t.unflushed > 0 {
			t.begin()
			t.flush()
			if !t.resume() {
				return nil, nil
			}
		}
	}
	return c.conn.Read(c.reading)
}

// rejectTooLarge answers a message that is too large, by its id if it is a request, and fails the input request if it
// is a response. It reports false if err is another error.
func (c *connection) rejectTooLarge(err error) bool {
	var tooLarge *transport.MessageTooLargeError
	if !errors.As(err, &tooLarge) {
		return false
	}
	c.received = true
	c.ignored.Log(c.ctx, c.Logger, slog.LevelWarn, "message rejected", slog.Any("error", err),
		slog.String("id", tooLarge.ID.String()))
	switch tooLarge.Kind {
	case jsonrpc.Response:
		c.session.ReceiveInvalid(&jsonrpc.Message{Kind: tooLarge.Kind, ID: tooLarge.ID}, err)
	case jsonrpc.Notification: // is not answered
	default:
		c.writeError(c.ctx, tooLarge.ID, rpc.MessageTooLarge(int64(tooLarge.Limit)))
	}
	return true
}

// receive processes one message. It returns when the message has been processed or
// another goroutine processes it. It blocks while the queue of requests is full.
func (t *turn) receive(ctx context.Context, data []byte) {
	c := t.c
	if jsonrpc.IsBatch(data) {
		c.batch(ctx, data)
		return
	}
	m := new(jsonrpc.Message)
	if err := m.Parse(data, c.Limits); err != nil {
		c.malformed(ctx, m, err)
		return
	}
	class := revision.Classify(revision.Input{Message: m, Agreed: c.session.Revision})
	switch m.Kind {
	case jsonrpc.Notification:
		c.notified(ctx, m, class)
		return
	case jsonrpc.Response:
		c.session.ReceiveResponse(m)
		return
	}
	c.modernPeer = c.modernPeer || class.Era == revision.Modern
	p := c.protocol(class.Era)
	inOrder := p.InOrder(m)
	accepted, fault := p.NewCall(c.from, m, class)
	if fault == nil {
		fault = p.Begin(ctx, accepted, c.conn)
	}
	switch {
	case fault != nil:
		c.writeError(ctx, m.ID, fault)
	case inOrder:
		var reply []byte
		rpc.Isolate(func() { p.AppendReply(&reply, accepted) }) // this goroutine reads from the connection
		c.write(ctx, reply)
	case m.Method == mcp.MethodPing && class.Era == revision.Legacy:
		c.ping(ctx, p, accepted)
	default:
		t.enqueue(ctx, job{protocol: p, call: accepted, pace: c.paces.of(m)})
	}
}

// malformed answers a malformed message. It does not answer a malformed notification or
// response: two peers could answer each other for ever.
func (c *connection) malformed(ctx context.Context, m *jsonrpc.Message, err error) {
	if c.session.ReceiveInvalid(m, err) { // the input request that waits for it fails
		return
	}
	var invalid *jsonrpc.InvalidMessageError
	if m.Kind == jsonrpc.Response || m.Kind == jsonrpc.Notification || !errors.As(err, &invalid) {
		c.ignored.Log(ctx, c.Logger, slog.LevelWarn, "malformed message ignored", slog.Any("error", err))
		return
	}
	c.writeError(ctx, m.ID, invalid.Wire())
}

// notified processes a notification of either era. Cancellations of both eras go to the
// session, since the requests of both share one set of ids.
func (c *connection) notified(ctx context.Context, m *jsonrpc.Message, class revision.Class) {
	c.session.ReceiveNotification(m)
	if m.Method == mcp.NotificationInitialized {
		c.startNotifications(ctx)
	}
	c.paused.Store(true)
	c.protocol(class.Era).ServeNotification(ctx, c.from, m, class)
	c.paused.Store(false)
}

// ping serves a ping in another goroutine, because middleware may block and may wait for the next message. A ping is
// not queued: the client wants to know whether the server is alive.
func (c *connection) ping(ctx context.Context, p rpc.Protocol, accepted *rpc.Call) {
	counted := c.begin() // false during a shutdown, which still answers pings
	go func() {
		var reply []byte
		defer func() { // also if middleware calls runtime.Goexit
			c.write(c.ctx, reply)
			if counted {
				c.running.Done()
			}
		}()
		p.AppendReply(&reply, accepted)
	}()
}

// batch serves a batch of a session of 2025-03-26 (basic, Batching). It serves the
// requests concurrently and writes their responses as one batch. Notifications of
// handlers are written at once. Each request takes a slot, up to the number of slots.
func (c *connection) batch(ctx context.Context, data []byte) {
	batch, fault := c.session.Batch(data, c.Limits)
	if fault != nil {
		c.writeError(ctx, jsonrpc.ID{}, fault)
		return
	}
	if batch.Notifies(mcp.NotificationInitialized) {
		defer c.startNotifications(ctx)
	}
	if !batch.HasRequests() {
		c.paused.Store(true)
		batch.Serve(ctx, nil, nil)
		c.paused.Store(false)
		return
	}
	if !c.begin() {
		batch.Reject(0, rpc.ErrShuttingDown)
		c.write(ctx, batch.Serve(ctx, nil, c.conn))
		return
	}
	slots := min(batch.Requests(), cap(c.slots))
	for taken := range slots {
		select {
		case c.slots <- struct{}{}:
			continue
		default:
		}
		c.paused.Store(true)
		select {
		case c.slots <- struct{}{}:
		case <-c.session.AwaitingInput():
			c.paused.Store(false)
			c.releaseSlots(taken)
			c.running.Done()
			batch.Reject(0, c.Legacy.Engine.Overloaded(ctx, "batch", errQueueFull))
			c.write(ctx, batch.Serve(ctx, nil, c.conn))
			return
		case <-ctx.Done():
			c.releaseSlots(taken)
			c.running.Done()
			return
		}
	}
	c.paused.Store(false)
	if batch.Requests() > slots {
		batch.Reject(slots, c.Legacy.Engine.Overloaded(ctx, "batch", rpc.ErrTooManyInFlight))
	}
	batch.Accept(ctx, c.conn)
	go func() {
		defer c.running.Done()
		defer c.releaseSlots(slots)
		c.write(c.ctx, batch.AppendReply(ctx, nil))
	}()
}
