package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// beforeSubscribe lets the policy decide on the subscription of a client to a resource of a server. prefix is the
// prefix of the URIs at the gateway.
func (g *Gateway) beforeSubscribe(serverName, prefix string) server.Option {
	return server.BeforeSubscribe(func(ctx context.Context, uri string) error {
		if !g.routes.Load().has(serverName, prefix, uri) { // see readUnlisted
			return call.ErrResourceNotFound
		}
		err := g.host.Client(serverName).MaySubscribe(g.withCaller(ctx), strings.TrimPrefix(uri, prefix))
		switch {
		case errors.Is(err, host.ErrUnknown): // the resource is about to be removed
			return call.ErrResourceNotFound
		case err != nil:
			return g.protocolError(ctx, serverName, err)
		}
		return nil
	})
}

// watchCaller implements server.Server.WhileListening: it watches the lists that servers with CallerAuth offer to the
// caller of ctx.
func (g *Gateway) watchCaller(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watched := make(map[string]context.CancelFunc) // by server
	for {
		_, changed := g.registered.version("")
		present := make(map[string]bool)
		for _, s := range g.callers.all() {
			name := s.status.Name
			if present[name] = true; watched[name] == nil {
				var one context.Context
				one, watched[name] = context.WithCancel(ctx)
				watching.Go(func() { g.watchListsOf(one, name) })
			}
		}
		for name, end := range watched {
			if !present[name] {
				end()
				delete(watched, name)
			}
		}
		if g.registered.wait(ctx, changed) != nil {
			return
		}
	}
}

// watchListsOf notifies the clients of the caller of ctx when the caller's lists of one server change, until ctx or
// Run ends. For some time, the host may have no server with the name, and later a different one.
func (g *Gateway) watchListsOf(ctx context.Context, serverName string) {
	who := server.PrincipalOf(ctx)
	for {
		_, changed := g.registered.version("")
		err := g.host.Client(serverName).WatchLists(g.withCaller(ctx), func() {
			g.callers.forget(who, serverName)
			g.server.CatalogsChanged(who)
		})
		if !errors.Is(err, host.ErrUnknown) {
			if err != nil && !errors.Is(err, call.ErrClosed) {
				g.logger().Warn("cannot watch the lists of a caller", "server", serverName, "error", err)
			}
			return
		}
		if g.registered.wait(ctx, changed) != nil {
			return
		}
	}
}

// forget removes the lists of a server that a caller has seen, so that the next list is not a change.
func (p *callers) forget(who principal.Principal, serverName string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.shown {
		if key.caller == who && key.server == serverName {
			delete(p.shown, key)
		}
	}
}

// followPolicy notifies the clients when the policy has changed, until ctx ends.
func (g *Gateway) followPolicy(ctx context.Context) {
	changed := g.host.PolicyChanges()
	for {
		select {
		case <-changed:
			changed = g.host.PolicyChanges() // before the notification, so that no change is missed
			g.server.CatalogsChanged()
		case <-ctx.Done():
			return
		}
	}
}
