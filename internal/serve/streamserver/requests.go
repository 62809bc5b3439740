package streamserver

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// protocol returns what accepts the messages of an era.
func (c *connection) protocol(era revision.Era) rpc.Protocol {
	if era == revision.Modern {
		return &c.modern
	}
	return c.session
}

// ping serves a ping in another goroutine, because middleware may block and may wait for the next message. A ping is
// not queued: the client wants to know whether the server is alive.
func (c *connection) ping(ctx context.Context, p rpc.Protocol, accepted *rpc.Call) {
	counted := c.begin() // false during a shutdown, which still answers pings
	go func() {
		var reply []byte
		p.AppendReply(&reply, accepted)
		c.write(c.ctx, reply)
		if counted {
			c.running.Done()
		}
	}()
}

// slotsOf returns the semaphore of a method. Subscriptions have their own, because they would take the slots of other
// requests for ever. It has twice the slots that subscriptions may have, since some requests will be rejected, or are
// cancelled and about to end.
func (c *connection) slotsOf(method string) chan struct{} {
	if !rpc.IsLongLived(method) {
		return c.slots
	}
	if c.subscriptionSlots == nil {
		c.subscriptionSlots = make(chan struct{}, 2*rpc.MaxSubscriptions)
	}
	return c.subscriptionSlots
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

func (c *connection) releaseSlots(slots int) {
	for range slots {
		<-c.slots
	}
}
