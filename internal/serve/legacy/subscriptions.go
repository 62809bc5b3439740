package legacy

import (
	"context"
	"maps"
	"slices"
	"sync"

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
	lock   chan struct{}       // serializes the changes and streams of a stored session; created on first use
	uris   map[string]struct{} // of a stored session only while queue is open: otherwise its record has them
	bytes  int                 // of uris, unless the session is stored
	closed bool                // the session has ended
	ready  bool                // the client has sent notifications/initialized
	lists  mcp.SubscriptionFilter
	queue  *changes.Subscription // the subscription of the open stream; nil: none is open
}

var _ rpc.Subscriber = (*subscriptions)(nil)

// owner returns the client for which the bytes of the URIs are counted.
func (s *subscriptions) owner() changes.Owner {
	return changes.OwnerOf(s.session.who, s.session.Address)
}

// Subscribe implements rpc.Subscriber.
func (s *subscriptions) Subscribe(ctx context.Context, uri string) error {
	if s.session.stored == nil {
		return s.add(uri)
	}
	return s.updateStored(ctx, func(state *State) error { return state.subscribe(uri) })
}

// Unsubscribe implements rpc.Subscriber.
func (s *subscriptions) Unsubscribe(ctx context.Context, uri string) error {
	if s.session.stored == nil {
		s.remove(uri)
		return nil
	}
	return s.updateStored(ctx, func(state *State) error { return state.unsubscribe(uri) })
}

// add adds a resource to a session that is not stored.
func (s *subscriptions) add(uri string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, added := s.uris[uri]; added {
		return nil
	}
	if s.closed {
		return errSessionEnded
	}
	if err := changes.CheckSubscription(uri, len(s.uris)+1, s.bytes+len(uri)); err != nil {
		return err
	}
	if err := s.session.server.Changes.Bytes().Add(s.owner(), changes.SubscribedSize(uri)); err != nil {
		return err
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

// remove removes a resource from a session that is not stored.
func (s *subscriptions) remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.uris[uri]; !ok {
		return
	}
	delete(s.uris, uri)
	s.bytes -= len(uri)
	s.session.server.Changes.Bytes().Remove(s.owner(), changes.SubscribedSize(uri))
	if s.queue != nil {
		s.queue.Remove(uri)
	}
}

// close ends the subscriptions of a session that is not stored.
func (s *subscriptions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.session.stored != nil {
		return
	}
	if len(s.uris) > 0 { // otherwise the handshake, which sets the address, may be running
		s.session.server.Changes.Bytes().Remove(s.owner(), changes.SubscribedSizeOf(len(s.uris), s.bytes))
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

// updateStored changes the URIs of a stored session in its record.
func (s *subscriptions) updateStored(ctx context.Context, change func(*State) error) error {
	if err := s.serialize(ctx); err != nil {
		return err
	}
	defer s.unlock()
	ss, changed := s.session.stored, false
	err := ss.update(ctx, func(state *State) error {
		err := change(state)
		changed = err == nil
		return err
	})
	if err == nil && changed && ss.sessions.Replicas != nil {
		ss.sessions.Replicas.Changed(ss.key)
	}
	return err
}

// restore adopts the record of a stored session.
func (s *subscriptions) restore(state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = state.Ready
	if s.queue != nil {
		s.uris = setOf(state.Subscribed)
	}
	s.apply()
}

func setOf(uris []string) map[string]struct{} {
	set := make(map[string]struct{}, len(uris))
	for _, uri := range uris {
		set[uri] = struct{}{}
	}
	return set
}

// activate starts the delivery of changes, including changes of lists.
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
	filter.ResourceSubscriptions = slices.Collect(maps.Keys(s.uris))
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

// openQueue implements Notifications. The state belongs to a stored session, or is nil.
func (s *Session) openQueue(state *State) *NotificationQueue {
	lists := s.server.listFilter(s.who)
	u := &s.subscriptions
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists = lists
	if state != nil {
		u.uris = setOf(state.Subscribed)
	}
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
	if s.queue != open {
		return
	}
	s.queue = nil
	if s.session.stored != nil {
		s.uris = nil
	}
}
