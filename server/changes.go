package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

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
