package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// BeforeSubscribe calls check before a client subscribes to the resource, with the URI that the client has
// sent. The context is that of a handler. If check returns an error, the client cannot subscribe: until
// 2025-11-25 it receives the error, as from the handler of a resource, and in 2026-07-28 the acknowledgement of
// its subscription omits the resource (2026-07-28, basic/patterns/subscriptions, Acknowledgment). Check must be
// safe for concurrent use.
//
// A subscription that was accepted stays until the client ends it. See also [Server.UnknownSubscription].
//
// BeforeSubscribe panics if check is nil.
func BeforeSubscribe(check func(ctx context.Context, uri string) error) ResourceOption {
	if check == nil {
		panic("server: BeforeSubscribe: the function must not be nil")
	}
	return beforeSubscribe(check)
}

type beforeSubscribe func(ctx context.Context, uri string) error

func (b beforeSubscribe) ofResource(e *resourceOffer) { e.admit = b }

// admitSubscription returns nil if the client may subscribe to a resource. The error is for the client.
func (s *Server) admitSubscription(ctx context.Context, c *rpc.Call, uri string) error {
	err := s.checkSubscription(ctx, c.Principal(), uri)
	switch {
	case errors.Is(err, ErrResourceNotFound):
		return resourceNotFound(uri)
	case err != nil:
		return fmt.Errorf("subscription to %.256q: %w", uri, err)
	}
	return nil
}

func (s *Server) checkSubscription(ctx context.Context, who principal.Principal, uri string) error {
	offer := s.servingFor(ctx, uri, who)
	if offer == nil && s.UnknownSubscription != nil {
		err := s.UnknownSubscription(ctx, uri)
		if offer = s.servingFor(ctx, uri, who); offer == nil {
			return err
		}
	}
	if offer == nil || offer.admit == nil {
		return nil
	}
	return offer.admit(ctx, uri)
}

// mayWatch is modern.Server.MayWatch. It logs errors that are not for the client.
func (s *Server) mayWatch(ctx context.Context, c *rpc.Call, uri string) bool {
	err := s.admitSubscription(ctx, c, uri)
	if err != nil {
		s.logger().InfoContext(ctx, "resource omitted from a subscription", "uri", uri, "error", err)
	}
	return err == nil
}
