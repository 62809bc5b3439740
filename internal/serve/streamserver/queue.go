package streamserver

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// errQueueFull is the error of requests that arrive when the queue is full and some of its
// requests wait for responses of the client.
var errQueueFull = &call.OverloadError{Limit: "queued requests while the server waits for responses of this client",
	RetryAfter: time.Second}

// enqueue serves an accepted request when a slot is free. It blocks while the queue is full.
//
// Subscriptions have slots of their own, because they would take the slots of other requests for ever. There are twice
// as many slots as a client may have subscriptions, since some requests will be rejected, or are cancelled and about to
// end.
func (t *turn) enqueue(ctx context.Context, j job) {
	c := t.c
	j.slots = c.slots
	if rpc.IsLongLived(j.call.Method()) {
		if c.subscriptionSlots == nil {
			c.subscriptionSlots = make(chan struct{}, 2*rpc.MaxSubscriptions)
		}
		j.slots = c.subscriptionSlots
	}
	if !c.begin() {
		c.reject(ctx, j, rpc.ErrShuttingDown)
		return
	}
	select {
	case j.slots <- struct{}{}:
		if j.pace.isQuick() {
			t.serve(j)
			return
		}
	default:
		if !c.awaitSlot(ctx, j) {
			return
		}
	}
	select {
	case c.jobs <- j:
	default:
		c.goroutines.Go(func() { c.work(j) })
	}
}

// awaitSlot waits for a slot for an accepted request, or queues the request or rejects it and reports false.
func (c *connection) awaitSlot(ctx context.Context, j job) bool {
	select {
	case c.queueSlots <- struct{}{}:
		go c.wait(j)
		return false
	default:
	}
	c.paused.Store(true)
	defer c.paused.Store(false)
	select {
	case j.slots <- struct{}{}:
		return true
	case c.queueSlots <- struct{}{}:
		go c.wait(j)
	case <-c.session.AwaitingInput():
		c.running.Done()
		c.reject(ctx, j, c.Legacy.Engine.Overloaded(ctx, j.call.Method(), errQueueFull))
	case <-ctx.Done():
		c.session.Inflight().End(j.call.ID())
		c.running.Done()
	}
	return false
}

// idleTime is the time after which an idle worker ends.
const idleTime = time.Second

// work serves a request, and then others until there is none for idleTime. The stack of such a worker has the size that
// handlers need. With a new goroutine for each request, whose small stack grows while it serves, a call through a
// gateway over stdio takes a quarter more of the processor.
func (c *connection) work(j job) {
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	for {
		c.serve(j)
		timer.Reset(idleTime)
		select {
		case j = <-c.jobs:
		case <-timer.C:
			return
		case <-c.closing.Done():
			return
		}
	}
}

// reject answers an accepted request with an error.
func (c *connection) reject(ctx context.Context, j job, e *jsonrpc.Error) {
	if c.session.Inflight().End(j.call.ID()) {
		c.writeError(ctx, j.call.ID(), e)
	}
}

// wait waits for a slot and serves a request. Meanwhile the reading goes on: the next message
// may free a slot, as a response to an input request or a cancellation does.
func (c *connection) wait(j job) {
	cancelled := j.call.Context().Done()
	select {
	case j.slots <- struct{}{}:
		<-c.queueSlots
		select {
		case <-cancelled:
			<-j.slots
		default:
			c.serve(j)
			return
		}
	case <-cancelled:
		<-c.queueSlots
	}
	c.reject(c.ctx, j,
		&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call was cancelled before it began"})
	c.running.Done()
}

// large is the size in bytes of a response that its worker writes.
const large = 64 << 10

// serve serves one request and writes its response, even if a handler calls runtime.Goexit.
func (c *connection) serve(j job) {
	buf := rpc.NewBuffer()
	start := time.Now()
	defer func() {
		switch n := len(*buf); {
		case n == 0: // cancelled
		case n < large:
			c.written(c.ctx, c.conn.Write(c.ctx, *buf))
		default: // without a copy
			c.written(c.ctx, c.conn.WriteBuffered(c.ctx, *buf))
			c.conn.Flush()
		}
		rpc.FreeBuffer(buf)
		<-j.slots
		c.running.Done()
	}()
	j.protocol.AppendReply(buf, j.call)
	j.pace.record(start, true)
}
