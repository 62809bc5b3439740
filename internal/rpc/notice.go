package rpc

import (
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ReceiveSubscription takes a notification that may belong to a subscription, and reports whether
// it did. One that cancels a subscription ends its request, whose response need not
// come then.
func (o *Outbound) ReceiveSubscription(m *jsonrpc.Message) bool {
	if m.Method == mcp.NotificationCancelled {
		p := o.subscription(revision.CancelledID(m))
		if p == nil {
			return false
		}
		p.answer(Response{}, call.ErrSubscriptionEnded)
		p.cancel(call.ErrSubscriptionEnded) // over HTTP, its stream need not end by itself
		return true
	}
	meta, ok := m.Params.Get("_meta")
	if !ok {
		return false
	}
	raw, ok := jsonrpc.Get(meta, mcp.MetaSubscriptionID)
	var id jsonrpc.ID
	if !ok || id.UnmarshalJSON(raw) != nil {
		return false
	}
	p := o.subscription(id)
	if p != nil {
		p.req.OnNotification(m)
	}
	return p != nil
}

// subscription returns the request in flight that opened a subscription, or nil.
func (o *Outbound) subscription(id jsonrpc.ID) *pending {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.pending[id]; p != nil && p.req.OnNotification != nil {
		return p
	}
	return nil
}

// Done returns a channel that is closed when the connection is of no more use: see
// Failed.
func (o *Outbound) Done() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone == nil {
		o.gone = make(chan struct{})
	}
	return o.gone
}

// StreamObserver is a Receiver that wants to know whether it hears what a server says by
// itself, where that has a stream of its own.
type StreamObserver interface {
	// StreamOpened is told when the stream is open, again perhaps. What the server has said
	// before is lost.
	StreamOpened()
	// StreamClosed is told when the stream is lost and will not be opened again.
	StreamClosed()
}
