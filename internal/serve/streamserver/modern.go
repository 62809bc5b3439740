package streamserver

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

// requestModern queues a request of 2026-07-28. Notifications cancel it, since a stream
// has no connection of its own for each request (basic/transports/stdio, Cancellation).
func (t *turn) requestModern(ctx context.Context, m *jsonrpc.Message, class revision.Class) {
	c := t.c
	c.modernPeer = true
	request, fault := c.Modern.Accept(ctx, m, class, c.who, c.conn, c.session.Inflight())
	t.enqueue(ctx, job{request, c.paces.of(m), c.modernSlots(m.Method)}, m.ID, fault)
}

// modernSlots returns the semaphore of a method. Subscriptions have their own, because
// they would take the slots of other requests for ever. It has twice the slots that
// subscriptions may have, since some requests will be rejected, or are cancelled and
// about to end.
func (c *connection) modernSlots(method string) chan struct{} {
	if !rpc.IsLongLived(method) {
		return c.slots
	}
	if c.subscriptionSlots == nil {
		c.subscriptionSlots = make(chan struct{}, 2*rpc.MaxSubscriptions)
	}
	return c.subscriptionSlots
}
