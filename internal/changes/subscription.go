package changes

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// minDeliveryInterval is the minimum time between two deliveries on one subscription. Many changes in a short time then
// cause few notifications, while a single change is delivered at once.
const minDeliveryInterval = 50 * time.Millisecond

// Subscription records the changes that one peer subscribes to, until they are taken. Its size
// is limited by its filter. It is safe for concurrent use.
type Subscription struct {
	// IncludeParts makes an update of a part of a resource count as an update of the resource. It must be set before
	// the first change.
	IncludeParts bool

	subscriber principal.Principal
	detach     func() // nil if it was not attached by Subscribe
	ready      chan struct{}

	mu      sync.Mutex
	lists   Kind // the lists in the filter
	uris    map[string]struct{}
	changed map[Change]bool // what has changed, with Resync unset; the value is Resync
	last    time.Time       // time of the last Take that returned changes
	timer   *time.Timer     // delays a delivery; see minDeliveryInterval
	closed  bool
	counter *subscriberCounter // counts uris, and anyList; may be nil
}

// NewSubscription returns a subscription that receives only the changes passed to Record.
func NewSubscription(filter mcp.SubscriptionFilter) *Subscription {
	s := &Subscription{ready: make(chan struct{}, 1)}
	s.Set(filter)
	return s
}

// Set replaces the filter. Recorded changes that match it are kept.
func (s *Subscription) Set(filter mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hadLists := s.lists != 0
	s.lists = 0
	for kind, included := range map[Kind]bool{
		ToolsChanged: filter.ToolsListChanged, PromptsChanged: filter.PromptsListChanged,
		ResourcesChanged: filter.ResourcesListChanged,
	} {
		if included {
			s.lists |= kind
		}
	}
	switch hasLists := s.lists != 0; {
	case hasLists && !hadLists:
		s.counter.add(anyList, s.subscriber)
	case hadLists && !hasLists:
		s.counter.remove(anyList, s.subscriber)
	}
	before := s.uris
	s.uris = make(map[string]struct{}, len(filter.ResourceSubscriptions))
	for _, uri := range filter.ResourceSubscriptions {
		s.add(uri)
	}
	for uri := range before { // after add, so that the count of a resource in both filters does not drop to 0
		s.counter.remove(uri, s.subscriber)
	}
	for c := range s.changed {
		if !s.matches(c) {
			delete(s.changed, c)
		}
	}
}

// Add adds a resource to the filter.
func (s *Subscription) Add(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(uri)
}

// add adds a resource to the filter. mu must be held.
func (s *Subscription) add(uri string) {
	if _, ok := s.uris[uri]; !ok {
		s.uris[uri] = struct{}{}
		s.counter.add(uri, s.subscriber)
	}
}

// Remove removes a resource from the filter.
func (s *Subscription) Remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.uris[uri]; ok {
		delete(s.uris, uri)
		s.counter.remove(uri, s.subscriber)
	}
	delete(s.changed, Change{Kind: ResourceUpdated, URI: uri})
}

// setCounter replaces the counter of the subscription; nil means none.
func (s *Subscription) setCounter(counter *subscriberCounter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists != 0 {
		s.counter.remove(anyList, s.subscriber)
		counter.add(anyList, s.subscriber)
	}
	for uri := range s.uris {
		s.counter.remove(uri, s.subscriber)
		counter.add(uri, s.subscriber)
	}
	s.counter = counter
}

func (s *Subscription) has(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.uris[uri]
	return ok
}

// matches reports whether the filter includes a change. mu must be held.
func (s *Subscription) matches(c Change) bool {
	if c.Kind == ResourceUpdated {
		_, ok := s.uris[c.URI]
		return ok
	}
	return s.lists&c.Kind != 0
}

// Record records a change if the filter includes it.
func (s *Subscription) Record(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(c)
}

// Resync records a change with Resync of everything in the filter.
func (s *Subscription) Resync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range listKinds {
		s.record(Change{Kind: kind, Resync: true})
	}
	for uri := range s.uris {
		s.record(Change{Kind: ResourceUpdated, URI: uri, Resync: true})
	}
}

// record records a change. mu must be held.
func (s *Subscription) record(c Change) {
	resync := c.Resync
	c.Resync = false
	if s.IncludeParts && c.Kind == ResourceUpdated {
		c.URI = s.whole(c.URI)
	}
	if s.closed || !s.matches(c) {
		return
	}
	if s.changed == nil {
		s.changed = make(map[Change]bool)
	}
	if before, recorded := s.changed[c]; recorded {
		s.changed[c] = before && resync
		return // Ready has already been signalled
	}
	s.changed[c] = resync
	switch wait := minDeliveryInterval - time.Since(s.last); {
	case wait <= 0:
		s.Wake()
	case s.timer == nil:
		s.timer = time.AfterFunc(wait, s.Wake)
	default:
		s.timer.Reset(wait)
	}
}

// whole returns the longest URI of the filter of which the given URI is a part, or ""
// (2026-07-28, schema, ResourceUpdatedNotification). mu must be held.
func (s *Subscription) whole(part string) string {
	if _, ok := s.uris[part]; ok {
		return part
	}
	longest := ""
	for uri := range s.uris {
		rest, ok := strings.CutPrefix(part, uri)
		if ok && len(uri) > len(longest) && (strings.HasSuffix(uri, "/") || strings.ContainsAny(rest[:1], "/?#")) {
			longest = uri
		}
	}
	return longest
}

// Ready returns a channel that receives a value when there are changes to take.
func (s *Subscription) Ready() <-chan struct{} { return s.ready }

// Wake makes Ready receive, even if nothing has changed.
func (s *Subscription) Wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Take returns the recorded changes and clears them: first lists, then resources in the order of their URIs.
func (s *Subscription) Take() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changed) == 0 {
		return nil
	}
	s.last = time.Now()
	all := make([]Change, 0, len(s.changed))
	for c, resync := range s.changed {
		c.Resync = resync
		all = append(all, c)
	}
	s.changed = nil
	slices.SortFunc(all, func(a, b Change) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return strings.Compare(a.URI, b.URI)
	})
	return all
}

// Close ends the subscription and drops the recorded changes. It may be called more than once.
func (s *Subscription) Close() {
	if s.detach != nil {
		s.detach()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.changed = true, nil
	if s.timer != nil {
		s.timer.Stop()
	}
}
