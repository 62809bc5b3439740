package legacy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// subscriptions selects the changes that a session receives: changes of lists that the server declares, and updates of
// resources to which the client has subscribed (2025-11-25, server/resources, Subscriptions).
type subscriptions struct {
	session *Session

	mu     sync.Mutex
	lock   chan struct{}       // a mutex for changes that may query the store; created on first use
	uris   map[string]struct{} // of a session that is not stored
	bytes  int                 // of uris
	closed bool                // the session has ended
	ready  bool                // the client has sent notifications/initialized
	lists  mcp.SubscriptionFilter
	queue  *changes.Subscription // the subscription of the open stream; nil: none is open

	// Of a stored session:
	buckets []bucket    // the URIs, including inline; nil unless queue is open
	behind  atomic.Bool // buckets may differ from the store
}

var _ rpc.Subscriber = (*subscriptions)(nil)

// owner returns the client for which the bytes of the URIs are counted.
func (s *subscriptions) owner() changes.Owner {
	return changes.OwnerOf(s.session.who, s.session.Address)
}

// Subscribe implements rpc.Subscriber.
func (s *subscriptions) Subscribe(ctx context.Context, uri string) error {
	if s.session.stored == nil {
		return s.add(ctx, uri)
	}
	return s.changeStored(ctx, uri, s.session.stored.subscribe)
}

// Unsubscribe implements rpc.Subscriber.
func (s *subscriptions) Unsubscribe(ctx context.Context, uri string) error {
	if s.session.stored == nil {
		s.remove(uri)
		return nil
	}
	return s.changeStored(ctx, uri, s.session.stored.unsubscribe)
}

// add adds a resource to a session that is not stored.
func (s *subscriptions) add(ctx context.Context, uri string) error {
	if err := s.serialize(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if added, err := s.check(uri); added || err != nil {
		return err
	}
	bytes, owner, size := s.session.server.Changes.Bytes(), s.owner(), changes.SubscribedSize(uri)
	if err := bytes.Add(ctx, owner, size); err != nil { // it may query the store, so do not hold mu
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		bytes.Force(owner, -size)
		return errSessionEnded
	}
	if s.uris == nil {
		s.uris = make(map[string]struct{})
	}
	s.uris[uri] = struct{}{}
	s.bytes += len(uri)
	if s.ready && s.queue != nil {
		s.queue.Add(uri)
	}
	return nil
}

// check reports whether a resource is added already. The error means that it must not be added.
func (s *subscriptions) check(uri string) (added bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, added := s.uris[uri]; added {
		return true, nil
	}
	return false, changes.CheckSubscription(uri, len(s.uris)+1, s.bytes+len(uri))
}

// remove removes a resource from a session that is not stored.
func (s *subscriptions) remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.uris[uri]; !ok {
		return
	}
	delete(s.uris, uri)
	s.bytes -= len(uri)
	s.session.server.Changes.Bytes().Force(s.owner(), -changes.SubscribedSize(uri))
	if s.queue != nil {
		s.queue.Remove(uri)
	}
}

// close ends the subscriptions of a session that is not stored. The URIs of a stored session
// count until it is deleted or has expired.
func (s *subscriptions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.session.stored != nil {
		return
	}
	if len(s.uris) > 0 { // otherwise the handshake, which sets the address, may be running
		s.session.server.Changes.Bytes().Force(s.owner(), -changes.SubscribedSizeOf(len(s.uris), s.bytes))
	}
	s.closed, s.uris, s.bytes = true, nil, 0
}

// serialize waits until no other change is running. The caller must call unlock when its own change is done.
func (s *subscriptions) serialize(ctx context.Context) error {
	s.mu.Lock()
	if s.lock == nil {
		s.lock = make(chan struct{}, 1)
	}
	s.mu.Unlock()
	select {
	case s.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *subscriptions) unlock() { <-s.lock }

// changeStored changes the URIs of a stored session, in the store and here.
func (s *subscriptions) changeStored(ctx context.Context, uri string,
	change func(context.Context, string) (*bucket, error)) error {
	if err := s.serialize(ctx); err != nil {
		return err
	}
	defer s.unlock()
	// A client that disconnects must not end the change between two writes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	changed, err := change(ctx, uri)
	if errors.Is(err, ErrNoSession) {
		s.session.stored.sessions.forget(ctx, s.session.stored.key)
	}
	if err == nil && changed != nil {
		s.replace(*changed)
		if replicas := s.session.stored.sessions.Replicas; replicas != nil {
			replicas.Changed(s.session.stored.key)
		}
	}
	return err
}

// readBuckets returns the buckets of a stored session. The caller has called serialize.
func (s *subscriptions) readBuckets(ctx context.Context) ([]bucket, error) {
	s.mu.Lock()
	have := s.buckets
	s.mu.Unlock()
	s.behind.Store(false) // first, because another replica may change the record meanwhile
	all, behind, err := s.session.stored.readBuckets(ctx, have)
	if behind || err != nil {
		s.behind.Store(true)
	}
	return all, err
}

// refresh adopts the changes of other replicas.
func (s *subscriptions) refresh(ctx context.Context) error {
	if !s.behind.Load() {
		return nil
	}
	if err := s.serialize(ctx); err != nil {
		return err
	}
	defer s.unlock()
	s.mu.Lock()
	open := s.buckets != nil
	s.mu.Unlock()
	if !open { // the next stream reads the buckets
		s.behind.Store(false)
		return nil
	}
	all, err := s.readBuckets(ctx)
	if err != nil {
		return err
	}
	for _, b := range all {
		s.replace(b)
	}
	return nil
}

// replace replaces a bucket of a stored session.
func (s *subscriptions) replace(now bucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets == nil {
		return
	}
	gone := make(map[string]struct{})
	if at := indexOf(s.buckets, now.number); at < 0 {
		s.buckets = append(s.buckets, now)
	} else {
		for _, uri := range s.buckets[at].uris {
			gone[uri] = struct{}{}
		}
		s.buckets[at] = now
	}
	if !s.ready || s.queue == nil {
		return
	}
	for _, uri := range now.uris {
		s.queue.Add(uri)
		delete(gone, uri)
	}
	for uri := range gone {
		s.queue.Remove(uri)
	}
}

// list returns the URIs. The caller holds mu.
func (s *subscriptions) list() []string {
	all := slices.Collect(maps.Keys(s.uris))
	for _, b := range s.buckets {
		all = append(all, b.uris...)
	}
	return all
}

// restore adopts the record of a stored session.
func (s *subscriptions) restore(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = ready
	s.apply()
}

// activate starts the delivery of changes, including those of lists.
func (s *subscriptions) activate(lists mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.lists = true, lists
	s.apply()
}

// apply updates the open subscription. The caller holds mu.
func (s *subscriptions) apply() {
	if s.queue != nil {
		s.queue.Set(s.filter())
	}
}

// filter returns the changes to deliver. The caller holds mu.
func (s *subscriptions) filter() mcp.SubscriptionFilter {
	if !s.ready {
		return mcp.SubscriptionFilter{}
	}
	filter := s.lists
	filter.ResourceSubscriptions = s.list()
	return filter
}

// listFilter returns the list changes that the server declares.
func (s *Server) listFilter(who principal.Principal) mcp.SubscriptionFilter {
	all := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	return changes.SupportedFilter(all, s.Describe(who).Capabilities)
}

// Notifications opens the session's queue of notifications, which receives changes after the handshake. The caller
// delivers them on one stream and closes the queue. An older queue of the session receives nothing more, and its
// pending notifications move to the new one.
func (s *Session) Notifications() *NotificationQueue { return s.openQueue(nil) }

// openQueue is Notifications. The buckets are those of a stored session.
func (s *Session) openQueue(buckets []bucket) *NotificationQueue {
	lists := s.server.listFilter(s.who)
	u := &s.subscriptions
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists, u.buckets = lists, buckets
	var next *changes.Subscription
	if s.server.Changes != nil {
		next = s.server.Changes.Subscribe(s.who, u.filter())
	} else {
		next = changes.NewSubscription(u.filter())
	}
	if u.queue != nil {
		for _, change := range u.queue.Take() {
			next.Record(change)
		}
		u.queue.Close()
	}
	u.queue = next
	next.Wake() // notifications may be waiting for a queue
	return &NotificationQueue{s, next}
}

// wake wakes the reader of the open queue.
func (s *subscriptions) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil {
		s.queue.Wake()
	}
}

// isOpen reports whether a queue is open.
func (s *subscriptions) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue != nil
}

// isCurrent reports whether open is the subscription of the open queue.
func (s *subscriptions) isCurrent(open *changes.Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue == open
}

// release forgets the subscription of a queue that closes, unless a newer queue is open.
func (s *subscriptions) release(open *changes.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == open {
		s.queue, s.buckets = nil, nil
	}
}
