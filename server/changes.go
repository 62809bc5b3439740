package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Subscribed clients are notified when tools, prompts, resources or templates are added or
// removed, and when [Server.ResourceUpdated] is called. Changes of one kind within 50 ms become
// one notification. A client that was not connected at the time is not notified later.

// ResourceUpdated notifies the clients that have subscribed to a resource that its contents have
// changed. The resource need not be in a list. The clients of all replicas are notified if they share
// [Server.Bus]; otherwise call ResourceUpdated on every replica. It does not block and is safe for
// concurrent use. (2026-07-28, server/resources, Subscriptions.)
func (s *Server) ResourceUpdated(uri string) {
	s.changes.PublishTo(s.notifiedOf(uri), changes.Change{Kind: changes.ResourceUpdated, URI: uri})
	s.replicas.announce(announcement{Kind: changes.ResourceUpdated, URI: uri})
}

// added adds an entry, and notifies the clients that can see it.
func added[E entry](s *Server, kind changes.Kind, to *entries[E], name string, e E) error {
	err := to.add(name, e)
	if err == nil {
		s.changes.PublishTo(e.audience(), changes.Change{Kind: kind})
		s.replicas.announce(announcement{Kind: kind, Name: name, Hidden: e.audience() != nil})
		s.followers.changed()
	}
	return err
}

// removed removes an entry, and notifies the clients that could see it.
func removed[E entry](s *Server, kind changes.Kind, from *entries[E], name string) bool {
	e, was := from.remove(name)
	if was {
		s.changes.PublishTo(e.audience(), changes.Change{Kind: kind})
		s.replicas.announce(announcement{Kind: kind, Name: name, Hidden: e.audience() != nil})
		s.followers.changed()
	}
	return was
}

// listen serves subscriptions/listen.
func (s *Server) listen(ctx context.Context, c *rpc.Call) (any, error) {
	return s.core.http.Modern.Listen(ctx, c, &s.changes, s.capabilities())
}

// subscribe serves resources/subscribe.
func (s *Server) subscribe(ctx context.Context, c *rpc.Call) (any, error) {
	return s.subscribed(ctx, c, func(to rpc.Subscriber, ctx context.Context, uri string) error {
		if err := changes.CheckSubscriptions([]string{uri}); err != nil {
			return err
		}
		if err := s.admitSubscription(ctx, c, uri); err != nil {
			return err
		}
		return to.Subscribe(ctx, uri)
	})
}

// unsubscribe serves resources/unsubscribe.
func (s *Server) unsubscribe(ctx context.Context, c *rpc.Call) (any, error) {
	return s.subscribed(ctx, c, rpc.Subscriber.Unsubscribe)
}

func (s *Server) subscribed(ctx context.Context, c *rpc.Call, change func(rpc.Subscriber, context.Context, string) error) (any, error) {
	if !s.offersResources() || c.Subscriber == nil {
		return methodNotFound(c)
	}
	if err := checkNames(c.Params(), "uri", "_meta"); err != nil {
		return nil, err
	}
	raw, _ := c.Params().Get("uri")
	if len(raw) == 0 || raw[0] != '"' {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.uri must be a string: the URI of a resource")
	}
	if err := change(c.Subscriber, ctx, jsonrpc.Unquote(raw)); err != nil {
		return nil, err
	}
	return &mcp.EmptyResult{}, nil
}

// rootsChanged handles notifications/roots/list_changed.
func (s *Server) rootsChanged(ctx context.Context, _ *rpc.Call) (any, error) {
	s.RootsChanged(ctx)
	return &mcp.EmptyResult{}, nil
}
