package legacy

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// subscriptions is what a session hears of that nobody has asked for in a request:
// of the lists of everything that the server declares, and of the resources that the
// client has subscribed to (2025-11-25, server/resources, Subscriptions).
type subscriptions struct {
	stored *StoredSession // the session, if it is kept in a store

	mu    sync.Mutex
	lock  chan struct{} // held by whoever changes uris; made when first needed
	uris  []string      // never modified, only replaced
	ready bool          // the handshake is over: the client may be told of changes
	lists mcp.SubscriptionFilter
	queue *rpc.Subscription // of the stream that changes are delivered on; nil: there is none
}

var _ rpc.Subscriber = (*subscriptions)(nil)

// Subscribe implements call.Subscriber.
func (s *subscriptions) Subscribe(ctx context.Context, uri string) error {
	return s.change(ctx, func(uris []string) ([]string, error) {
		if slices.Contains(uris, uri) {
			return uris, nil
		}
		uris = append(slices.Clone(uris), uri)
		return uris, rpc.CheckSubscribed(uris)
	})
}

// Unsubscribe implements call.Subscriber.
func (s *subscriptions) Unsubscribe(ctx context.Context, uri string) error {
	return s.change(ctx, func(uris []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(uris), func(u string) bool { return u == uri }), nil
	})
}

// change changes the URIs, one change after the other.
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

// keep takes over what another replica has been told.
func (s *subscriptions) restore(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uris, s.ready = state.Subscribed, state.Ready
	s.apply()
}

// begin notes that the client may be told of changes, and of which lists.
func (s *subscriptions) activate(lists mcp.SubscriptionFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.lists = true, lists
	s.apply()
}

// apply is called with mu held.
func (s *subscriptions) apply() {
	if s.queue != nil {
		s.queue.Set(s.filter())
	}
}

// filter is called with mu held.
func (s *subscriptions) filter() mcp.SubscriptionFilter {
	if !s.ready {
		return mcp.SubscriptionFilter{}
	}
	filter := s.lists
	filter.ResourceSubscriptions = s.uris
	return filter
}

// lists is what the server tells of without being asked: of the lists of what it
// offers, if it has declared that.
func (s *Server) listFilter(who principal.Principal) mcp.SubscriptionFilter {
	all := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	return rpc.Honoured(all, s.Describe(who).Capabilities)
}

// Listen begins to note what is to be said to the client, once the handshake is over. The
// caller delivers it, on the one stream that such messages go to, and closes the
// subscription. Whoever has listened before hears nothing more, and what it has not
// taken comes here.
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
			next.Note(change)
		}
		u.queue.Close()
	}
	u.queue = next
	next.Rouse() // there may be something that nobody has listened to
	return &NotificationQueue{s, next}
}

// rouse has whoever listens look what there is to say.
func (s *subscriptions) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue != nil {
		s.queue.Rouse()
	}
}

// isOpen reports whether open is what the client listens to.
func (s *subscriptions) isCurrent(open *rpc.Subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue == open
}

// keepSubscribed changes the session's URIs in the store, where the next request
// finds them, on whichever replica.
func (l *StoredSession) storeSubscribed(ctx context.Context, change func([]string) ([]string, error)) (now []string, _ error) {
	var refused error
	err := l.update(ctx, func(state *State) {
		if now, refused = change(state.Subscribed); refused == nil {
			state.Subscribed = now
		}
	})
	if refused != nil {
		err = refused
	}
	return now, err
}
