package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
)

// startTime is how long subscriptions to unknown resources wait for servers that are starting. It begins with the
// first.
const startTime = 5 * time.Second

// beforeSubscribe lets the policy decide about the subscription of a client to a resource of a server. The URIs at
// the gateway have the prefix.
func (g *Gateway) beforeSubscribe(serverName, prefix string) server.ResourceOption {
	return server.BeforeSubscribe(func(ctx context.Context, uri string) error {
		if !g.currentRoutes().has(serverName, prefix, uri) { // see readUnlisted
			return server.ErrResourceNotFound
		}
		err := upstream.PermitSubscription(g.host, ctx, serverName, strings.TrimPrefix(uri, prefix))
		switch {
		case errors.Is(err, host.ErrUnknownServer): // the resource is about to be removed
			return server.ErrResourceNotFound
		case err != nil:
			return g.protocolError(ctx, serverName, err)
		}
		return nil
	})
}

// admitUnknown rejects the subscription to a resource that is not registered if there is a policy, which could not
// decide about it later. It waits for servers that are starting, because clients subscribe again when the gateway
// has been restarted.
func (g *Gateway) admitUnknown(ctx context.Context, _ string) error {
	if g.host.Policy == nil {
		return nil
	}
	now := time.Now()
	g.firstUnknown.CompareAndSwap(nil, &now)
	waiting, cancel := context.WithDeadline(ctx, g.firstUnknown.Load().Add(startTime))
	defer cancel()
	_ = g.WaitReady(waiting) // the server looks for the resource again
	return server.ErrResourceNotFound
}
