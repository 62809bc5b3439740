package rpc

import (
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/principal"
)

// SubscribedResource is a resource that subscriptions are for, and whose these are: each caller
// once, in no order.
type SubscribedResource struct {
	URI         string
	Subscribers []principal.Principal
}

// interest is which resources subscriptions are for, whose, and how many. Its lock is
// taken under that of a subscription, and no other is taken under it.
type interest struct {
	mu      sync.Mutex
	counts  map[wish]int
	changed func() // told after the first subscription of a caller's to a resource, and after the last
}

type wish struct {
	uri string
	who principal.Principal
}

func (i *interest) add(uri string, who principal.Principal) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.counts == nil {
		i.counts = make(map[wish]int)
	}
	w := wish{uri, who}
	i.counts[w]++
	if i.counts[w] == 1 && i.changed != nil {
		i.changed()
	}
}

func (i *interest) remove(uri string, who principal.Principal) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	w := wish{uri, who}
	if i.counts[w]--; i.counts[w] > 0 {
		return
	}
	delete(i.counts, w)
	if i.changed != nil {
		i.changed()
	}
}

// OnSubscribersChanged has changed called whenever a caller begins or ceases to be subscribed to a
// resource. It must return at once, and call nothing of Changes. It is called before
// there are subscriptions.
func (h *Changes) OnSubscribersChanged(changed func()) {
	h.interest.mu.Lock()
	defer h.interest.mu.Unlock()
	h.interest.changed = changed
}

// SubscribedResources returns the resources that somebody is subscribed to, in the order of their
// URIs.
func (h *Changes) SubscribedResources() []SubscribedResource {
	i := &h.interest
	i.mu.Lock()
	wishes := make([]wish, 0, len(i.counts))
	for w := range i.counts {
		wishes = append(wishes, w)
	}
	i.mu.Unlock()
	slices.SortFunc(wishes, func(a, b wish) int { return strings.Compare(a.uri, b.uri) })
	var all []SubscribedResource
	for _, w := range wishes {
		if len(all) == 0 || all[len(all)-1].URI != w.uri {
			all = append(all, SubscribedResource{URI: w.uri})
		}
		of := &all[len(all)-1]
		of.Subscribers = append(of.Subscribers, w.who)
	}
	return all
}
