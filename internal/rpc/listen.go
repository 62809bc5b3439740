package rpc

import (
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ReceiveSubscription takes a notification and reports whether it belongs to a subscription. A
// notification that cancels a subscription ends its request; the server need not send the
// response then.
func (o *Outbound) ReceiveSubscription(m *jsonrpc.Message) bool {
	if m.Method == mcp.NotificationCancelled {
		p := o.subscription(revision.CancelledID(m))
		if p == nil {
			return false
		}
		p.answer(Response{}, call.ErrSubscriptionEnded)
		p.cancel(call.ErrSubscriptionEnded) // ends Send: over HTTP the server may keep the stream open
		return true
	}
	meta, _ := m.Params.Get("_meta")
	raw, ok := jsonrpc.Get(meta, mcp.MetaSubscriptionID)
	if !ok {
		return o.receiveUnidentified(m)
	}
	var id jsonrpc.ID
	if id.UnmarshalJSON(raw) != nil {
		return false
	}
	p := o.subscription(id)
	if p != nil {
		p.req.OnNotification(m)
	}
	return p != nil
}

// subscription returns the request in flight that opened the subscription with this id, or nil.
func (o *Outbound) subscription(id jsonrpc.ID) *pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.pending[id]; p != nil && p.req.OnNotification != nil {
		return p
	}
	return nil
}

// receiveUnidentified passes a change without the id of a subscription to all subscriptions,
// which ignore changes that they have not asked for. Some servers leave out the id, which is
// required (2026-07-28, basic/patterns/subscriptions, Receiving Notifications).
func (o *Outbound) receiveUnidentified(m *jsonrpc.Message) bool {
	if _, ok := ChangeOf(m); !ok {
		return false
	}
	o.mu.Lock()
	var all []*pending
	for _, p := range o.pending {
		if p.req.OnNotification != nil {
			all = append(all, p)
		}
	}
	o.mu.Unlock()
	for _, p := range all {
		p.req.OnNotification(m)
	}
	return len(all) > 0
}
