package legacy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// subscriptions selects the changes that a session receives: changes of lists that the
// server declares, and updates of resources to which the client has subscribed (2025-11-25,
// server/resources, Subscriptions).
type subscriptions struct {
	session *Session

	mu     sync.Mutex
	lock   chan struct{} // a mutex for changes that may query the store; created on first use
	uris   map[string]struct{}
	bytes  int  // of uris
	closed bool // the session has ended
	ready  bool // the client has sent notifications/initialized
	lists  mcp.SubscriptionFilter
	queue  *rpc.Subscription // the subscription of the open stream; nil: none is open
}

var _ rpc.Subscriber = (*subscriptions)(nil)

// owner returns the client for which the bytes of the URIs are counted.
func (s *subscriptions) owner() rpc.Owner { return rpc.OwnerOf(s.session.who, s.session.Address) }

// Subscribe implements rpc.Subscriber.
func (s *subscriptions) Subscribe(ctx context.Context, uri string) error {
	if s.session.stored == nil {
		return s.add(ctx, uri)
	}
	return s.changeStored(ctx, func(uris []string) ([]string, error) {
		if slices.Contains(uris, uri) {
			return uris, errUnchanged
		}
		uris = append(slices.Clone(uris), uri)
		return uris, rpc.CheckSubscriptions(uris)
	})
}

// Unsubscribe implements rpc.Subscriber.
func (s *subscriptions) Unsubscribe(ctx context.Context, uri string) error {
	if s.session.stored == nil {
		s.remove(uri)
		return nil
	}
	return s.changeStored(ctx, func(uris []string) ([]string, error) {
		i := slices.Index(uris, uri)
		if i < 0 {
			return uris, errUnchanged
		}
		return slices.Delete(slices.Clone(uris), i, i+1), nil
	})
}

// add adds a resource to a session that is not stored.
func (s *subscriptions) add(ctx context.Context, uri string) error {
	if err := s.serialize(ctx); err != nil {
		return err
	}
	defer func() { <-s.lock }()
	if added, err := s.check(uri); added || err != nil {
		return err
	}
	bytes, owner, size := s.session.server.Changes.Bytes(), s.owner(), rpc.SubscribedSize(uri)
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
	return false, rpc.CheckSubscription(uri, len(s.uris)+1, s.bytes+len(uri))
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
	s.session.server.Changes.Bytes().Force(s.owner(), -rpc.SubscribedSize(uri))
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
		s.session.server.Changes.Bytes().Force(s.owner(), -rpc.SubscribedSize(s.list()...))
	}
	s.closed, s.uris, s.bytes = true, nil, 0
}

// serialize waits until no other change is running. The caller must receive from lock when its
// own change is done.
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

// changeStored changes the URIs of a stored session, in the store and here.
func (s *subscriptions) changeStored(ctx context.Context, change func([]string) ([]string, error)) error {
	if err := s.serialize(ctx); err != nil {
		return err
	}
	defer func() { <-s.lock }()
	uris, err := s.session.stored.storeSubscribed(ctx, change)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(uris)
	s.apply()
	return nil
}

// list returns the URIs. The caller holds mu.
func (s *subscriptions) list() []string { return slices.Collect(maps.Keys(s.uris)) }

// set replaces the URIs. The caller holds mu.
func (s *subscriptions) set(uris []string) {
	s.uris, s.bytes = nil, 0
	if len(uris) > 0 {
		s.uris = make(map[string]struct{}, len(uris))
	}
	for _, uri := range uris {
		s.uris[uri] = struct{}{}
		s.bytes += len(uri)
	}
}

// restore adopts a state that another replica has changed.
func (s *subscriptions) restore(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(state.Subscribed)
	s.ready = state.Ready
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
	return rpc.SupportedFilter(all, s.Describe(who).Capabilities)
}

// Notifications opens the session's queue of notifications, which receives changes after
// the handshake. The caller delivers them on one stream and closes the queue. An older
// queue of the session receives nothing more, and its pending notifications move to the new
// one.
func (s *Session) Notifications() *NotificationQueue {
	lists := s.server.listFilter(s.who)
	u := &s.subscriptions
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lists = lists
	var next *rpc.Subscription
	if s.server.Changes != nil {
		next = s.server.Changes.Subscribe(s.who, u.filter())
	} else {
		next = rpc.NewSubscription(u.filter())
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

// isCurrent reports whether open is the subscription of the open queue.
func (s *subscriptions) isCurrent(open *rpc.Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue == open
}

// storeSubscribed changes the session's URIs in the store, where every replica finds them, and
// counts their bytes.
func (ss *StoredSession) storeSubscribed(ctx context.Context, change func([]string) ([]string, error)) (now []string, _ error) {
	owner, quota := ss.subscriptions.owner(), &ss.sessions.quota
	before := -1
	err := ss.update(ctx, func(state *State) (err error) {
		if now, err = change(state.Subscribed); err != nil {
			return err
		}
		before, state.Subscribed = rpc.SubscribedSize(state.Subscribed...), now
		return quota.addSubscribed(ctx, owner, ss.key, rpc.SubscribedSize(now...))
	})
	switch {
	case errors.Is(err, ErrNoSession):
		quota.remove(ss.key)
	case err != nil && before >= 0:
		quota.setSubscribed(owner, ss.key, before)
	}
	return now, err
}
