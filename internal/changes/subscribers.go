package changes

import (
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/principal"
)

// SubscribedResource is a resource with at least one subscription.
type SubscribedResource struct {
	URI         string
	Subscribers []principal.Principal // each once, in no order
}

// SubscribedResources returns the resources with subscriptions, in the order of their URIs.
func (h *Broadcaster) SubscribedResources() []SubscribedResource {
	s := &h.subscribers
	s.mu.Lock()
	keys := make([]subscriberKey, 0, len(s.counts))
	for key := range s.counts {
		if key.uri != anyList {
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(keys, func(a, b subscriberKey) int { return strings.Compare(a.uri, b.uri) })
	var all []SubscribedResource
	for _, key := range keys {
		if len(all) == 0 || all[len(all)-1].URI != key.uri {
			all = append(all, SubscribedResource{URI: key.uri})
		}
		last := &all[len(all)-1]
		last.Subscribers = append(last.Subscribers, key.principal)
	}
	return all
}

// ListSubscribers returns the principals with subscriptions to changes of lists, each once, in no order.
func (h *Broadcaster) ListSubscribers() (all []principal.Principal) {
	s := &h.subscribers
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.counts {
		if key.uri == anyList {
			all = append(all, key.principal)
		}
	}
	return all
}

// OnSubscribersChanged sets a function that is called when a principal gets its first subscription to a resource or to
// changes of lists, and when it loses its last one. The function must return at once and must not call methods of
// Broadcaster. OnSubscribersChanged must be called before the first subscription.
func (h *Broadcaster) OnSubscribersChanged(changed func()) {
	h.subscribers.mu.Lock()
	defer h.subscribers.mu.Unlock()
	h.subscribers.changed = changed
}

// anyList takes the place of a URI, which is never empty, for subscriptions to changes of lists.
const anyList = ""

// subscriberCounter counts the subscriptions to resources and to changes of lists. Its lock may be taken while the
// lock of a subscription is held; while it is held, no other lock is taken. A nil subscriberCounter does not count.
type subscriberCounter struct {
	mu      sync.Mutex
	counts  map[subscriberKey]int
	changed func() // see Broadcaster.OnSubscribersChanged
}

type subscriberKey struct {
	uri       string
	principal principal.Principal
}

func (s *subscriberCounter) add(uri string, p principal.Principal) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[subscriberKey]int)
	}
	key := subscriberKey{uri, p}
	s.counts[key]++
	if s.counts[key] == 1 && s.changed != nil {
		s.changed()
	}
}

func (s *subscriberCounter) remove(uri string, p principal.Principal) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := subscriberKey{uri, p}
	if s.counts[key]--; s.counts[key] > 0 {
		return
	}
	delete(s.counts, key)
	if s.changed != nil {
		s.changed()
	}
}
