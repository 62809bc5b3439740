package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// beforeSubscribe lets the policy decide about the subscription of a client to a resource of a server. The URIs at
// the gateway have the prefix.
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

// watchCaller is the Listening of link.Hooks: it watches the lists that servers with CallerAuth have for the caller of
// ctx.
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

// watchListsOf notifies the clients of the caller of ctx of changes of its lists of one server, until ctx or Run ends.
// The host may have no server with the name for some time, and another one later.
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

// outdate is the Outdated of link.Hooks: another replica has notified clients of a caller, or of any.
func (g *Gateway) outdate(caller string) (shown bool) {
	return g.host.Outdate(func(who principal.Principal) bool {
		return caller == "" || who.Key() == caller
	})
}

// hide is the Hide of link.Hooks: it hides what the policy denies to a caller whatever the arguments are, and the tools
// that a client searches for.
func (g *Gateway) hide(caller principal.Principal, list string) func(origin any) bool {
	hides, search := g.host.Hides(caller), list == mcp.MethodListTools && !g.discovery.lists()
	if hides == nil && !search {
		return nil
	}
	return func(origin any) bool { return search || hides(origin.(*host.Request)) }
}

// hideUpdate is the HideUpdate of link.Hooks.
func (g *Gateway) hideUpdate(caller principal.Principal, uri string) bool {
	hides := g.host.Hides(caller)
	if hides == nil {
		return false
	}
	serverName, there, ok := g.routes.Load().server(uri)
	return ok && hides(&host.Request{
		Method: mcp.MethodSubscribe, Server: serverName, Kind: host.KindResource, Name: there,
	})
}

// server returns the server that a URI at the gateway belongs to, and the URI there.
func (r *routes) server(uri string) (serverName, there string, ok bool) {
	if serverName, _ = r.owner(uri); serverName == shared {
		return "", "", false
	}
	for _, prefix := range []string{uriPrefix, pagePrefix} {
		if there, ok := strings.CutPrefix(uri, prefix+serverName+"/"); ok {
			return serverName, there, true
		}
	}
	return serverName, uri, true
}

// followPolicy notifies the clients when the policy has changed, until ctx ends.
func (g *Gateway) followPolicy(ctx context.Context) {
	changed := g.host.PolicyChanges()
	for {
		select {
		case <-changed:
			changed = g.host.PolicyChanges() // first, so that no change is missed
			g.server.CatalogsChanged()
			downstream.RecheckSubscriptions(g.server)
		case <-ctx.Done():
			return
		}
	}
}
