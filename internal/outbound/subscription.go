package outbound

import (
	"errors"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// subscriptionOf returns the id of the subscription that a notification names, and whether it names one. An id that
// cannot be read is zero.
func subscriptionOf(m *jsonrpc.Message) (id jsonrpc.ID, named bool) {
	meta, _ := m.Params.Get("_meta")
	raw, named := jsonrpc.Get(meta, mcp.MetaSubscriptionID)
	if id.UnmarshalJSON(raw) != nil {
		return jsonrpc.ID{}, named
	}
	return id, named
}

// ErrSubscriptionEnded means that the server has ended a subscription.
var ErrSubscriptionEnded = errors.New("the server ended the subscription")

// ReceiveSubscription takes a notification and reports whether it belongs to a subscription. A notification that
// cancels a subscription ends its request; the server then need not send the response.
func (o *Requests) ReceiveSubscription(m *jsonrpc.Message) bool {
	if m.Method == mcp.NotificationCancelled {
		p := o.subscription(revision.CancelledID(m))
		if p == nil {
			return false
		}
		p.answer(Response{}, ErrSubscriptionEnded)
		p.cancel(ErrSubscriptionEnded) // ends Send: over HTTP, the server may keep the stream open
		return true
	}
	id, named := subscriptionOf(m)
	if !named {
		return o.receiveUnidentified(m)
	}
	p := o.subscription(id)
	if p != nil {
		p.req.OnNotification(m)
	}
	return p != nil
}

// subscription returns the request in flight that opened the subscription with this id, or nil.
func (o *Requests) subscription(id jsonrpc.ID) *pending {
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
func (o *Requests) receiveUnidentified(m *jsonrpc.Message) bool {
	if _, ok := changes.Of(m); !ok {
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
