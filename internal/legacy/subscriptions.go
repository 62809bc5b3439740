package legacy

import (
	"context"
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
	stored *StoredSession // nil unless the session is stored

	mu    sync.Mutex
	lock  chan struct{} // a mutex for changes of uris; created on first use
	uris  []string      // never modified, only replaced
	ready bool          // the client has sent notifications/initialized
	lists mcp.SubscriptionFilter
	queue *rpc.Subscription // the subscription of the open stream; nil: none is open
}

var _ rpc.Subscriber = (*subscriptions)(nil)

// Subscribe implements rpc.Subscriber.
func (s *subscriptions) Subscribe(ctx context.Context, uri string) error {
	return s.change(ctx, func(uris []string) ([]string, error) {
		if slices.Contains(uris, uri) {
			return uris, nil
		}
		uris = append(slices.Clone(uris), uri)
		return uris, rpc.CheckSubscriptions(uris)
	})
}

// Unsubscribe implements rpc.Subscriber.
func (s *subscriptions) Unsubscribe(ctx context.Context, uri string) error {
	return s.change(ctx, func(uris []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(uris), func(u string) bool { return u == uri }), nil
	})
}

// change changes the URIs. Changes run one after the other.
func (s *subscriptions) change(ctx context.Context, change func([]string) ([]string, error)) error {
	s.mu.Lock()
	if s.lock == nil {
		s.lock = make(chan struct{}, 1)
	}
	s.mu.Unlock()
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.lock }()
	var uris []string
	var err error
	if s.stored != nil {
		uris, err = s.stored.storeSubscribed(ctx, change)
	} else {
		uris, err = change(s.subscribed())
	}
	if err == nil {
		s.set(uris)
	}
	return err
}

func (s *subscriptions) subscribed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uris
}

// set replaces the URIs.
func (s *subscriptions) set(uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uris = uris
	s.apply()
}

// restore adopts a state that another replica has changed.
func (s *subscriptions) restore(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uris, s.ready = state.Subscribed, state.Ready
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
	filter.ResourceSubscriptions = s.uris
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

// storeSubscribed changes the session's URIs in the store, where every replica finds them.
func (ss *StoredSession) storeSubscribed(ctx context.Context, change func([]string) ([]string, error)) (now []string, _ error) {
	var rejected error
	err := ss.update(ctx, func(state *State) {
		if now, rejected = change(state.Subscribed); rejected == nil {
			state.Subscribed = now
		}
	})
	if rejected != nil {
		err = rejected
	}
	return now, err
}
