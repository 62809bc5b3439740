package changes

import (
	"maps"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// SupportedFilter returns the part of a filter that a server with these capabilities supports.
func SupportedFilter(filter mcp.SubscriptionFilter, capabilities mcp.ServerCapabilities) mcp.SubscriptionFilter {
	resources := capabilities.Resources
	out := mcp.SubscriptionFilter{
		ToolsListChanged: filter.ToolsListChanged && capabilities.Tools != nil && capabilities.Tools.ListChanged,
		PromptsListChanged: filter.PromptsListChanged && capabilities.Prompts != nil &&
			capabilities.Prompts.ListChanged,
		ResourcesListChanged: filter.ResourcesListChanged && resources != nil && resources.ListChanged,
	}
	if resources != nil && resources.Subscribe {
		out.ResourceSubscriptions = filter.ResourceSubscriptions
	}
	return out
}

// Broadcaster delivers changes to subscriptions. It has no goroutine and no queue: each subscription records what has
// changed. The zero Broadcaster has no subscriptions. It is safe for concurrent use.
type Broadcaster struct {
	mu            sync.RWMutex
	subscriptions map[*Subscription]struct{}
	subscribers   subscriberCounter
	bytes         SubscribedBytes
	recent        recentChanges
}

// Bytes returns the counter of the bytes of subscribed URIs, or nil if h is nil.
func (h *Broadcaster) Bytes() *SubscribedBytes {
	if h == nil {
		return nil
	}
	return &h.bytes
}

// Publish records a change in all subscriptions. It does not block.
func (h *Broadcaster) Publish(c Change) {
	h.recent.add(nil, c)
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subscriptions {
		s.Record(c)
	}
}

// PublishTo records a change in the subscriptions of the principals for which visible returns
// true, or in all subscriptions if visible is nil. It calls visible once for each principal,
// without holding a lock.
func (h *Broadcaster) PublishTo(visible func(principal.Principal) bool, c Change) {
	if visible == nil {
		h.Publish(c)
		return
	}
	h.recent.add(visible, c)
	h.mu.RLock()
	all := slices.Collect(maps.Keys(h.subscriptions))
	h.mu.RUnlock()
	known := make(map[principal.Principal]bool)
	for _, s := range all {
		show, ok := known[s.subscriber]
		if !ok {
			show = visible(s.subscriber)
			known[s.subscriber] = show
		}
		if show {
			s.Record(c)
		}
	}
}

// Subscribe begins a subscription. Subscription.Close ends it.
func (h *Broadcaster) Subscribe(subscriber principal.Principal, filter mcp.SubscriptionFilter) *Subscription {
	s := NewSubscription(filter)
	s.subscriber = subscriber
	s.detach = h.Attach(s)
	return s
}

// Attach adds a subscription until detach is called.
func (h *Broadcaster) Attach(s *Subscription) (detach func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscriptions == nil {
		h.subscriptions = make(map[*Subscription]struct{})
	}
	h.subscriptions[s] = struct{}{}
	s.setCounter(&h.subscribers)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, attached := h.subscriptions[s]; attached {
			delete(h.subscriptions, s)
			s.setCounter(nil)
		}
	}
}

// ResyncAll calls Resync for every subscription.
func (h *Broadcaster) ResyncAll() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subscriptions {
		s.Resync()
	}
}

// HasSubscriber reports whether a subscription is for updates of a resource.
func (h *Broadcaster) HasSubscriber(uri string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subscriptions {
		if s.has(uri) {
			return true
		}
	}
	return false
}

// Len returns the number of subscriptions.
func (h *Broadcaster) Len() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subscriptions)
}
