package gateway

import (
	"context"
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// listedEntry identifies an entry of a list of the gateway.
type listedEntry struct{ list, name string }

// setOrigin records what a request for an entry is at its server.
func (g *Gateway) setOrigin(list, name string, r host.Request) {
	if _, ok := g.host.Policy.(host.Hider); ok {
		g.origins.Store(listedEntry{list, name}, r)
	}
}

func (g *Gateway) removeOrigin(list, name string) { g.origins.Delete(listedEntry{list, name}) }

// hide is the Hide of link.Hooks: it hides what the policy denies to a caller whatever the arguments are.
func (g *Gateway) hide(caller principal.Principal) func(list, name string) bool {
	hides := upstream.Hides(g.host, caller)
	if hides == nil {
		return nil
	}
	return func(list, name string) bool {
		if list == mcp.MethodSubscribe {
			serverName, uri, ok := g.currentRoutes().server(name)
			return ok && hides(&host.Request{Method: list, Server: serverName, Kind: host.KindResource, Name: uri})
		}
		origin, ok := g.origins.Load(listedEntry{list, name})
		if !ok {
			return false
		}
		r := origin.(host.Request)
		return hides(&r)
	}
}

// server returns the server that a URI at the gateway belongs to, and the URI there.
func (r *routes) server(uri string) (serverName, there string, ok bool) {
	if serverName, _ = r.owner(uri); serverName == shared {
		return "", "", false
	}
	return serverName, strings.TrimPrefix(uri, prefixOf(serverName)), true
}

// followPolicy notifies the clients when the policy has changed, until ctx ends.
func (g *Gateway) followPolicy(ctx context.Context) {
	changed := upstream.PolicyChanges(g.host)
	for {
		select {
		case <-changed:
			changed = upstream.PolicyChanges(g.host) // first, so that no change is missed
			g.server.CatalogsChanged()
			downstream.RecheckSubscriptions(g.server)
		case <-ctx.Done():
			return
		}
	}
}
