package call

import (
	"slices"
	"sync"
)

// interest is which resources subscriptions are for, and how many. Its lock is taken
// under that of a subscription, and no other is taken under it.
type interest struct {
	mu      sync.Mutex
	uris    map[string]int
	changed func() // told after the first subscription to a resource, and after the last
}

func (i *interest) add(uri string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uris == nil {
		i.uris = make(map[string]int)
	}
	i.uris[uri]++
	if i.uris[uri] == 1 && i.changed != nil {
		i.changed()
	}
}

func (i *interest) remove(uri string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uris[uri]--; i.uris[uri] > 0 {
		return
	}
	delete(i.uris, uri)
	if i.changed != nil {
		i.changed()
	}
}

// OnInterest has changed called whenever a resource begins or ceases to be one that
// somebody is subscribed to. It must return at once, and call nothing of Changes. It
// is called before there are subscriptions.
func (h *Changes) OnInterest(changed func()) {
	h.interest.mu.Lock()
	defer h.interest.mu.Unlock()
	h.interest.changed = changed
}

// Interest returns the resources that somebody is subscribed to, sorted.
func (h *Changes) Interest() []string {
	h.interest.mu.Lock()
	defer h.interest.mu.Unlock()
	uris := make([]string, 0, len(h.interest.uris))
	for uri := range h.interest.uris {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris
}
