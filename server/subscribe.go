package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// BeforeSubscribe calls check before a client subscribes to the resource, with the URI that the client sent. The
// context is like a handler's. If check returns an error, the client cannot subscribe: until 2025-11-25 it receives the
// error, as from the handler of a resource, and in 2026-07-28 the acknowledgement of its subscription leaves the
// resource out (2026-07-28, basic/patterns/subscriptions, Acknowledgment). Check must be safe for concurrent use.
//
// An accepted subscription stays until the client ends it. To decide again later, see [Server.CatalogsChanged] and
// [UpdatesFor]. For URIs that the server does not offer, [Server.BeforeSubscribe] decides.
//
// BeforeSubscribe panics if check is nil.
func BeforeSubscribe(check func(ctx context.Context, uri string) error) Option {
	if check == nil {
		panic("server: BeforeSubscribe: the function must not be nil")
	}
	return ofResource("BeforeSubscribe", func(o *resourceOffer) { o.admit = check })
}

// watched are the resources that a subscription names.
type watched struct {
	filter mcp.SubscriptionFilter
	offers map[string]*resourceOffer // by URI, until the client is admitted; nil: no entry is known
}

// resolveListen returns the *watched of a call of subscriptions/listen.
func (s *Server) resolveListen(ctx context.Context, c *rpc.Call) (any, []string, error) {
	filter, err := modern.FilterOf(c.Params())
	if err != nil {
		return nil, nil, err
	}
	w := &watched{filter: filter, offers: make(map[string]*resourceOffer, len(filter.ResourceSubscriptions))}
	var needs []string
	for _, uri := range filter.ResourceSubscriptions {
		offer, scopes, err := s.watchedFor(ctx, uri, c.Principal())
		if err != nil {
			return nil, needs, err
		}
		w.offers[uri], needs = offer, challenge.Union(needs, scopes)
	}
	return w, needs, nil
}

// listen serves subscriptions/listen.
func (s *Server) listen(ctx context.Context, c *rpc.Call) (any, error) {
	w := c.Target.Entry.(*watched)
	return s.core.http.Modern.Listen(ctx, c, w.filter, &s.changes, s.capabilities(), func(uri string) bool {
		offer, resolved := w.offers[uri]
		delete(w.offers, uri) // later, the policy may have changed: that is another decision
		var err error
		if !resolved {
			offer, err = s.authorizedWatch(ctx, c, uri)
		}
		if err == nil {
			err = s.admitSubscription(ctx, uri, offer)
		}
		if err != nil { // it need not be for the client
			s.logger().InfoContext(ctx, "ignoring a resource in a subscription", "uri", uri, "error", err)
		}
		return err == nil
	})
}

// subscribedURI is a resource that a client names in a session.
type subscribedURI struct {
	uri   string
	offer *resourceOffer // nil: no entry is known
}

// resolveSubscription returns the *subscribedURI of a call of resources/subscribe.
func (s *Server) resolveSubscription(ctx context.Context, c *rpc.Call) (any, []string, error) {
	uri, err := subscriptionParam(c)
	if err == nil {
		err = changes.CheckSubscriptions([]string{uri})
	}
	if err != nil {
		return nil, nil, err
	}
	offer, needs, err := s.watchedFor(ctx, uri, c.Principal())
	return &subscribedURI{uri, offer}, needs, err
}

// subscribe serves resources/subscribe.
func (s *Server) subscribe(ctx context.Context, c *rpc.Call) (any, error) {
	named := c.Target.Entry.(*subscribedURI)
	if c.Subscriber == nil {
		return nil, rpc.MethodNotFound(c)
	}
	if err := s.admitSubscription(ctx, named.uri, named.offer); err != nil {
		return nil, err
	}
	if err := c.Subscriber.Subscribe(ctx, named.uri); err != nil {
		return nil, err
	}
	return &mcp.EmptyResult{}, nil
}

// unsubscribe serves resources/unsubscribe.
func (s *Server) unsubscribe(ctx context.Context, c *rpc.Call) (any, error) {
	if c.Subscriber == nil {
		return nil, rpc.MethodNotFound(c)
	}
	uri, err := subscriptionParam(c)
	if err != nil {
		return nil, err
	}
	if err := c.Subscriber.Unsubscribe(ctx, uri); err != nil {
		return nil, err
	}
	return &mcp.EmptyResult{}, nil
}

func subscriptionParam(c *rpc.Call) (uri string, err error) {
	if err := checkNames(c.Params(), "uri", "_meta"); err != nil {
		return "", err
	}
	return textParam(c, "uri", "URI of a resource")
}

// watched returns the resource or template of a URI that a caller can see, or nil, and the scopes that a subscription
// needs. If the first template that matches cannot be read with the values of its variables, the subscription also
// needs the scopes of the next ones, up to the one that a client reads.
func (c *Catalog) watched(uri string, who principal.Principal) (offer *resourceOffer, needs []string) {
	if e, ok := c.resources.find(uri, who); ok {
		return &e.resourceOffer, e.scopes
	}
	c.templates.match(uri, func(e *templateEntry, values map[string][]string) bool {
		if !e.visibleTo(who) {
			return true
		}
		if offer == nil {
			offer = &e.resourceOffer
		}
		needs = challenge.Union(needs, e.scopes)
		_, err := e.open(uri, values)
		return err != nil
	})
	return offer, needs
}

// watchedFor looks in all catalogs of the caller of ctx.
func (s *Server) watchedFor(
	ctx context.Context, uri string, who principal.Principal,
) (offer *resourceOffer, needs []string, err error) {
	err = s.lookup(ctx, func(c *Catalog) bool {
		offer, needs = c.watched(uri, who)
		return offer != nil
	})
	return offer, needs, err
}

// authorizedWatch is watchedFor for a decision that the engine has not authorized.
func (s *Server) authorizedWatch(ctx context.Context, c *rpc.Call, uri string) (*resourceOffer, error) {
	offer, needs, err := s.watchedFor(ctx, uri, c.Principal())
	if err == nil {
		err = auth.Require(ctx, needs...)
	}
	return offer, err
}

// admitSubscription returns nil if the client may subscribe to a resource with an entry, or without one. The error is
// for the client.
func (s *Server) admitSubscription(ctx context.Context, uri string, offer *resourceOffer) error {
	err := s.checkSubscription(ctx, uri, offer)
	switch {
	case errors.Is(err, call.ErrResourceNotFound):
		return resourceNotFound(uri)
	case err != nil:
		return fmt.Errorf("subscription to %.256q: %w", uri, err)
	}
	return nil
}

func (s *Server) checkSubscription(ctx context.Context, uri string, offer *resourceOffer) error {
	admit := s.BeforeSubscribe
	if offer != nil {
		admit = offer.admit
	}
	if admit == nil {
		return nil
	}
	return admit(ctx, uri)
}

// UpdatesFor restricts the updates of a resource to callers for whom f returns true, so that a caller who may no longer
// subscribe is not notified either. It receives the URI that clients subscribed to. It is called for each update and
// each subscribed caller, must be safe for concurrent use, and must not block.
//
// UpdatesFor panics if f is nil.
func UpdatesFor(f func(caller principal.Principal, uri string) bool) Option {
	if f == nil {
		panic("server: UpdatesFor: the function must not be nil")
	}
	return ofResource("UpdatesFor", func(o *resourceOffer) { o.notifies = f })
}

// rechecks announces that subscriptions are to be decided about again.
type rechecks struct {
	mu   sync.Mutex
	next chan struct{} // closed by begin; nil if nothing waits for it
}

func (r *rechecks) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}

// wait returns a channel that the next call of begin closes.
func (r *rechecks) wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}
