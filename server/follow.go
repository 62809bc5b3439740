package server

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// maxFollowed bounds the resources that are followed at a time, and the callers of Server.WhileListening.
const maxFollowed = 10_000

// WhileSubscribed calls follow in a new goroutine when the first client subscribes to the
// resource, so that the resource is watched only when needed. Follow calls
// [Catalog.ResourceUpdated] whenever the contents have changed. It receives the URI that clients
// have subscribed to. It must return when its context ends: when the last client has
// unsubscribed, the resource is removed, or the server shuts down.
//
// One call of follow serves all clients, or, in a catalog of [Server.Catalogs], those of one caller. If follow returns
// early or panics, it is not called again until all clients have unsubscribed and another client subscribes. A panic is
// logged.
//
// For a template or a directory, follow is called for each URI that clients have subscribed to.
// A server calls it for at most 10,000 resources at a time. It logs a warning if clients have
// subscribed to more. Only subscriptions of clients that can see the resource count; see
// [VisibleTo].
//
// WhileSubscribed panics if follow is nil.
func WhileSubscribed(follow func(ctx context.Context, uri string)) Option {
	if follow == nil {
		panic("server: WhileSubscribed: the function must not be nil")
	}
	return ofResource("WhileSubscribed", func(o *resourceOffer) { o.follow = follow })
}

// followers runs the functions of WhileSubscribed. One goroutine starts and stops the others,
// and ends when none is running.
type followers struct {
	mu     sync.Mutex
	server *Server // nil before start
	closed bool
	news   chan struct{}      // capacity 1: subscriptions or entries have changed
	cancel context.CancelFunc // nil while no goroutine runs
	done   sync.WaitGroup

	lists resourceOffer // in place of a resource: the lists of a caller; see Server.WhileListening
}

// start lets the functions of s run. It is called before the first subscription.
func (f *followers) start(s *Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server = s
	if s.WhileListening != nil {
		f.lists.follow = func(ctx context.Context, _ string) { s.WhileListening(ctx) }
	}
}

// changed makes the goroutine compare the subscriptions with what is running. It does not block.
func (f *followers) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server == nil || f.closed || !f.server.follows.Load() && f.lists.follow == nil {
		return
	}
	if f.news == nil {
		f.news = make(chan struct{}, 1)
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
	if f.cancel == nil {
		var ctx context.Context
		ctx, f.cancel = context.WithCancel(context.Background())
		s := f.server
		f.done.Go(func() { f.run(ctx, s) })
	}
}

// close stops all functions, and waits for them until ctx ends.
func (f *followers) close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if f.cancel != nil {
		f.cancel()
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.done.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follower is one resource that is being followed.
type follower struct {
	offer  *resourceOffer
	cancel context.CancelFunc
}

// followed identifies a resource that is followed.
type followed struct {
	uri    string              // empty for the lists of a caller
	caller principal.Principal // who has the resource besides those of the server, or the lists; Anonymous otherwise
}

func (f *followers) run(ctx context.Context, s *Server) {
	following := make(map[followed]follower)
	defer func() {
		for _, one := range following {
			one.cancel()
		}
	}()
	for {
		select {
		case <-f.news:
		case <-ctx.Done():
			return
		}
		f.follow(ctx, s, following)
		if len(following) == 0 && f.rest() {
			return
		}
	}
}

// rest reports whether nothing is left to do, and then lets the goroutine end.
func (f *followers) rest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.news) > 0 {
		return false
	}
	f.cancel()
	f.cancel = nil
	return true
}

// follow starts missing functions, and stops those without a subscription.
func (f *followers) follow(ctx context.Context, s *Server, following map[followed]follower) {
	wanted := s.wanted(ctx)
	for key, one := range following {
		if wanted[key] != one.offer {
			one.cancel()
			delete(following, key)
		}
	}
	for key, offer := range wanted {
		if _, runs := following[key]; runs {
			continue
		}
		uri := key.uri
		ctx, cancel := context.WithCancel(subscriberContext(ctx, key.caller))
		following[key] = follower{offer, cancel}
		f.done.Go(func() {
			defer cancel()
			defer func() {
				if v := recover(); v != nil {
					s.logger().Error("panic in the function passed to WhileSubscribed", "uri", uri, "panic", v,
						"stack", string(debug.Stack()))
				}
			}()
			offer.follow(ctx, uri)
		})
	}
}

// wanted returns the resources, and lists of callers, to follow.
func (s *Server) wanted(ctx context.Context) map[followed]*resourceOffer {
	wanted := make(map[followed]*resourceOffer)
	s.addCallers(wanted)
	limit := len(wanted) + maxFollowed
	add := func(key followed, offer *resourceOffer) (full bool) {
		if offer == nil || offer.follow == nil {
			return false
		}
		if len(wanted) == limit {
			s.logger().Warn("too many subscribed resources: WhileSubscribed does not run for all of them",
				"limit", maxFollowed)
			return true
		}
		wanted[key] = offer
		return false
	}
	for _, of := range s.changes.SubscribedResources() {
		if offer := s.serving(of.URI, of.Subscribers); offer != nil || s.Catalogs == nil {
			if add(followed{uri: of.URI}, offer) {
				return wanted
			}
			continue
		}
		for _, who := range of.Subscribers {
			var offer *resourceOffer
			err := s.lookup(subscriberContext(ctx, who), func(c *Catalog) bool {
				offer = c.serving(of.URI, []principal.Principal{who})
				return offer != nil
			})
			if err != nil {
				s.logger().WarnContext(ctx, "cannot find a subscribed resource: WhileSubscribed does not run for it",
					"error", err)
			}
			if add(followed{of.URI, who}, offer) {
				return wanted
			}
		}
	}
	return wanted
}

// addCallers adds the callers of Server.WhileListening.
func (s *Server) addCallers(wanted map[followed]*resourceOffer) {
	isAnonymous := func(who principal.Principal) bool { return who == principal.Anonymous }
	callers := slices.DeleteFunc(s.changes.ListSubscribers(), isAnonymous)
	if len(callers) == 0 || s.followers.lists.follow == nil { // see start
		return
	}
	if len(callers) > maxFollowed {
		s.logger().Warn("too many callers subscribed to list changes: WhileListening does not run for all of them",
			"limit", maxFollowed)
		// Sorted, so that the same ones remain.
		slices.SortFunc(callers, func(a, b principal.Principal) int { return strings.Compare(a.Key(), b.Key()) })
		callers = callers[:maxFollowed]
	}
	for _, who := range callers {
		wanted[followed{caller: who}] = &s.followers.lists
	}
}

// subscriberContext returns the context for the subscriptions of a caller, unless it is Anonymous.
func subscriberContext(ctx context.Context, who principal.Principal) context.Context {
	if who == principal.Anonymous {
		return ctx
	}
	return rpc.WithCaller(ctx, rpc.Caller{Owner: who})
}
