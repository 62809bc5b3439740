package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Clients hear of changes while the server serves: of tools, prompts, resources and
// templates that are added or removed by themselves, of the contents of a resource
// when [Server.ResourceUpdated] is called. Many changes within 50 ms are reported as
// one of each kind. Who was not connected when something changed is not told later.

// ResourceUpdated tells the clients that have subscribed to a resource that its
// contents have changed, so that they read it again. It need not be one that is
// listed. It waits for nobody, and is safe for concurrent use. (2026-07-28,
// server/resources, Subscriptions.)
//
// Clients connected to other replicas are not told.
func (s *Server) ResourceUpdated(uri string) {
	s.changes.PublishTo(s.readersOf(uri), rpc.Change{Kind: rpc.ResourceUpdated, URI: uri})
}

// added adds to a list, and reports it as changed to those who see what is new.
func added[E entry](s *Server, kind rpc.ChangeKind, to interface{ add(string, E) error }, name string, e E) error {
	err := to.add(name, e)
	if err == nil {
		s.changes.PublishTo(e.audience(), rpc.Change{Kind: kind})
		s.followers.changed()
	}
	return err
}

// removed removes from a list, and reports it as changed to those who saw what is gone.
func removed[E entry](s *Server, kind rpc.ChangeKind, from interface{ remove(string) (E, bool) }, name string) bool {
	e, was := from.remove(name)
	if was {
		s.changes.PublishTo(e.audience(), rpc.Change{Kind: kind})
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
	return s.subscribed(ctx, c, rpc.Subscriber.Subscribe)
}

// unsubscribe serves resources/unsubscribe.
func (s *Server) unsubscribe(ctx context.Context, c *rpc.Call) (any, error) {
	return s.subscribed(ctx, c, rpc.Subscriber.Unsubscribe)
}

func (s *Server) subscribed(ctx context.Context, c *rpc.Call, change func(rpc.Subscriber, context.Context, string) error) (any, error) {
	if !s.offersResources() || c.Subscriber == nil {
		return methodNotFound(c)
	}
	if name, ok := c.Params().CaseVariant("uri", "_meta"); ok {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params member %q differs from a known one in its case", name)
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

// rootsChanged takes notifications/roots/list_changed.
func (s *Server) rootsChanged(ctx context.Context, _ *rpc.Call) (any, error) {
	s.RootsChanged(ctx)
	return &mcp.EmptyResult{}, nil
}
