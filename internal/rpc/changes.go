package rpc

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Bounds on what one peer subscribes to.
const (
	MaxSubscriptions  = 64    // of one peer
	MaxSubscribed     = 1_024 // resources of one subscription
	MaxSubscribedURI  = 8 << 10
	MaxSubscribedURIs = 1 << 20 // bytes of all URIs of one subscription
)

// between is the least time between two deliveries on one subscription: a storm of
// changes costs few notifications, while a single change is reported at once.
const between = 50 * time.Millisecond

// ChangeKind says what has changed.
type ChangeKind uint8

// What can change.
const (
	ToolsChanged     ChangeKind = 1 << iota // the list of tools
	PromptsChanged                          // the list of prompts
	ResourcesChanged                        // the list of resources, or that of templates
	ResourceUpdated                         // the contents of one resource
)

var listKinds = [...]ChangeKind{ToolsChanged, PromptsChanged, ResourcesChanged}

// Method returns the notification that reports such a change.
func (k ChangeKind) Method() string {
	switch k {
	case ToolsChanged:
		return mcp.NotificationToolListChanged
	case PromptsChanged:
		return mcp.NotificationPromptListChanged
	case ResourcesChanged:
		return mcp.NotificationResourceListChanged
	case ResourceUpdated:
		return mcp.NotificationResourceUpdated
	}
	return ""
}

// String returns the name of the kind, for logs.
func (k ChangeKind) String() string {
	return strings.TrimPrefix(k.Method(), "notifications/")
}

// Change is one thing that has changed.
type Change struct {
	Kind ChangeKind
	URI  string // of a ResourceUpdated
	// Resync: nobody has reported the change. It is unknown what happened while nobody
	// listened: before a subscription, or while its connection was lost.
	Resync bool
}

// AppendParams appends the params of the notification that reports the change;
// nothing if it needs none. Subscription, unless zero, is the id of the request that
// the notification belongs to.
func (c Change) AppendParams(dst []byte, subscription jsonrpc.ID) []byte {
	if subscription.IsZero() && c.Kind != ResourceUpdated {
		return dst
	}
	dst = append(dst, '{')
	if !subscription.IsZero() {
		dst = AppendSubscription(dst, subscription)
	}
	if c.Kind == ResourceUpdated {
		dst = append(comma(dst), `"uri":`...)
		dst = jsonrpc.AppendString(dst, c.URI)
	}
	return append(dst, '}')
}

// AppendSubscription appends the _meta member that tells which subscription a
// message belongs to (2026-07-28, basic/patterns/subscriptions).
func AppendSubscription(dst []byte, id jsonrpc.ID) []byte {
	dst = append(dst, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	return append(id.Append(dst), '}')
}

// ChangeOf reads a notification that reports a change. It is false for any other
// message, and for one that does not say which resource it is about.
func ChangeOf(m *jsonrpc.Message) (Change, bool) {
	switch m.Method {
	case mcp.NotificationToolListChanged:
		return Change{Kind: ToolsChanged}, true
	case mcp.NotificationPromptListChanged:
		return Change{Kind: PromptsChanged}, true
	case mcp.NotificationResourceListChanged:
		return Change{Kind: ResourcesChanged}, true
	case mcp.NotificationResourceUpdated:
		raw, _ := m.Params.Get("uri")
		uri := jsonrpc.Unquote(raw)
		return Change{Kind: ResourceUpdated, URI: uri}, uri != ""
	}
	return Change{}, false
}

// Subscriber is what a session is subscribed to.
type Subscriber interface {
	// Subscribe has the session hear of updates of a resource. Doing so twice is the
	// same as once. The error is a *jsonrpc.Error if there are too many resources.
	Subscribe(ctx context.Context, uri string) error
	// Unsubscribe ends that. That the session was not subscribed is no error.
	Unsubscribe(ctx context.Context, uri string) error
}

// CheckSubscriptions returns an error for the client unless the resources are few
// enough for one subscription, and can be some.
func CheckSubscriptions(uris []string) error {
	if len(uris) > MaxSubscribed {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "a subscription has %d resources at most", MaxSubscribed)
	}
	bytes := 0
	for _, uri := range uris {
		if uri == "" || len(uri) > MaxSubscribedURI {
			return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "a resource's URI has 1 to %d bytes", MaxSubscribedURI)
		}
		bytes += len(uri)
	}
	if bytes > MaxSubscribedURIs {
		return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the URIs of a subscription have %d bytes at most", MaxSubscribedURIs)
	}
	return nil
}

// SupportedFilter is what of a filter can be had from a server with these capabilities.
func SupportedFilter(filter mcp.SubscriptionFilter, offered mcp.ServerCapabilities) mcp.SubscriptionFilter {
	resources := offered.Resources
	out := mcp.SubscriptionFilter{
		ToolsListChanged:     filter.ToolsListChanged && offered.Tools != nil && offered.Tools.ListChanged,
		PromptsListChanged:   filter.PromptsListChanged && offered.Prompts != nil && offered.Prompts.ListChanged,
		ResourcesListChanged: filter.ResourcesListChanged && resources != nil && resources.ListChanged,
	}
	if resources != nil && resources.Subscribe {
		out.ResourceSubscriptions = filter.ResourceSubscriptions
	}
	return out
}

// Changes hands changes from where they happen to whoever has subscribed. It has no
// goroutine and no queue: each subscription remembers what has changed, however
// often it has. The zero Changes is ready for use. Safe for concurrent use.
type Changes struct {
	mu       sync.RWMutex
	subs     map[*Subscription]struct{}
	interest interest
}

// Publish tells all subscriptions of a change. It does not wait for anybody.
func (h *Changes) Publish(c Change) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subs {
		s.Record(c)
	}
}

// PublishTo tells the subscriptions of those of a change for whom sees returns true;
// all, if it is nil. Sees is asked once for each principal, without a lock, and may be
// slow at the cost of whoever publishes.
func (h *Changes) PublishTo(sees func(principal.Principal) bool, c Change) {
	if sees == nil {
		h.Publish(c)
		return
	}
	h.mu.RLock()
	all := slices.Collect(maps.Keys(h.subs))
	h.mu.RUnlock()
	known := make(map[principal.Principal]bool)
	for _, s := range all {
		yes, asked := known[s.who]
		if !asked {
			yes = sees(s.who)
			known[s.who] = yes
		}
		if yes {
			s.Record(c)
		}
	}
}

// Subscribe begins a subscription of a peer's, which Close ends.
func (h *Changes) Subscribe(who principal.Principal, filter mcp.SubscriptionFilter) *Subscription {
	s := NewSubscription(filter)
	s.who = who
	s.detach = h.Attach(s)
	return s
}

// Attach has a subscription hear of what is published here until detach is called.
func (h *Changes) Attach(s *Subscription) (detach func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*Subscription]struct{})
	}
	h.subs[s] = struct{}{}
	s.counted(&h.interest)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, attached := h.subs[s]; attached {
			delete(h.subs, s)
			s.counted(nil)
		}
	}
}

// ResyncAll has every subscription deliver all that it is for, as changes of which
// nobody is sure.
func (h *Changes) ResyncAll() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subs {
		s.Resync()
	}
}

// HasSubscriber reports whether a subscription is for updates of a resource.
func (h *Changes) HasSubscriber(uri string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subs {
		if s.wants(uri) {
			return true
		}
	}
	return false
}

// Len returns how many subscriptions there are.
func (h *Changes) Len() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subs)
}

// Subscription is what one peer wants to hear of, and what has changed of it since
// it was last told. Its size is bounded by what it is for. Safe for concurrent use.
type Subscription struct {
	// IncludeParts says that an update of a part of a resource is one of the resource. It is
	// set before anything is noted.
	IncludeParts bool

	who    principal.Principal // whom changes are delivered to
	detach func()              // nil: nothing is to be detached from
	wake   chan struct{}

	mu      sync.Mutex
	lists   ChangeKind // those that are wanted
	uris    map[string]struct{}
	changed map[Change]bool // what is to be delivered, with Unsure false; whether it is unsure
	last    time.Time       // of the last delivery
	timer   *time.Timer     // what changed before it was time is delivered then
	closed  bool
	in      *interest // where uris are counted; nil: nowhere
}

// NewSubscription makes a subscription that hears of what it is told by Note only.
func NewSubscription(filter mcp.SubscriptionFilter) *Subscription {
	s := &Subscription{wake: make(chan struct{}, 1)}
	s.Set(filter)
	return s
}

// Set changes what the subscription is for. What has changed already and is still
// wanted will be delivered.
func (s *Subscription) Set(filter mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = 0
	for kind, wanted := range map[ChangeKind]bool{
		ToolsChanged: filter.ToolsListChanged, PromptsChanged: filter.PromptsListChanged, ResourcesChanged: filter.ResourcesListChanged,
	} {
		if wanted {
			s.lists |= kind
		}
	}
	before := s.uris
	s.uris = make(map[string]struct{}, len(filter.ResourceSubscriptions))
	for _, uri := range filter.ResourceSubscriptions {
		s.add(uri)
	}
	for uri := range before { // after what stays has been counted once more
		s.in.remove(uri, s.who)
	}
	for c := range s.changed {
		if !s.isFor(c) {
			delete(s.changed, c)
		}
	}
}

// Add adds a resource to what the subscription is for.
func (s *Subscription) Add(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(uri)
}

// add is called with mu held.
func (s *Subscription) add(uri string) {
	if _, is := s.uris[uri]; !is {
		s.uris[uri] = struct{}{}
		s.in.add(uri, s.who)
	}
}

// counted has what the subscription is for counted somewhere, or nowhere anymore.
func (s *Subscription) counted(in *interest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri := range s.uris {
		s.in.remove(uri, s.who)
		in.add(uri, s.who)
	}
	s.in = in
}

// Remove takes a resource from what the subscription is for.
func (s *Subscription) Remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, was := s.uris[uri]; was {
		delete(s.uris, uri)
		s.in.remove(uri, s.who)
	}
	delete(s.changed, Change{Kind: ResourceUpdated, URI: uri})
}

func (s *Subscription) wants(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.uris[uri]
	return ok
}

// isFor is called with mu held.
func (s *Subscription) isFor(c Change) bool {
	if c.Kind == ResourceUpdated {
		_, ok := s.uris[c.URI]
		return ok
	}
	return s.lists&c.Kind != 0
}

// Record remembers a change, if the subscription is for it.
func (s *Subscription) Record(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(c)
}

// Resync remembers everything that the subscription is for, as changes of which
// nobody is sure.
func (s *Subscription) Resync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range listKinds {
		s.note(Change{Kind: kind, Resync: true})
	}
	for uri := range s.uris {
		s.note(Change{Kind: ResourceUpdated, URI: uri, Resync: true})
	}
}

// note is called with mu held.
func (s *Subscription) note(c Change) {
	unsure := c.Resync
	c.Resync = false
	if s.IncludeParts && c.Kind == ResourceUpdated {
		c.URI = s.whole(c.URI)
	}
	if s.closed || !s.isFor(c) {
		return
	}
	if s.changed == nil {
		s.changed = make(map[Change]bool)
	}
	if was, known := s.changed[c]; known {
		s.changed[c] = was && unsure
		return // whoever delivers knows that there is something
	}
	s.changed[c] = unsure
	switch wait := between - time.Since(s.last); {
	case wait <= 0:
		s.signal()
	case s.timer == nil:
		s.timer = time.AfterFunc(wait, s.signal)
	default:
		s.timer.Reset(wait)
	}
}

// whole returns the URI that the subscription is for and that the one given is a part
// of, if there is one (2026-07-28, schema, ResourceUpdatedNotification). It is called
// with mu held.
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

func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wake has Wake receive though nothing has changed: something else is to be delivered
// in the same way.
func (s *Subscription) Wake() { s.signal() }

// Ready receives when there is something to Take.
func (s *Subscription) Ready() <-chan struct{} { return s.wake }

// Take returns what has changed and forgets it: lists first, then resources in the
// order of their URIs.
func (s *Subscription) Take() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.changed) == 0 {
		return nil
	}
	s.last = time.Now()
	all := make([]Change, 0, len(s.changed))
	for c, unsure := range s.changed {
		c.Resync = unsure
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

// Close ends the subscription. What it has not delivered is dropped. It may be
// called more than once.
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
