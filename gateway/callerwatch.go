package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// watchPersonal is server.Server.WhileListening: it watches the lists that servers with CallerAuth have for the caller of ctx.
func (g *Gateway) watchPersonal(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watched := make(map[string]context.CancelFunc) // by server
	for {
		_, changed := g.registered.version("")
		present := make(map[string]bool)
		if servers := g.personal.servers.Load(); servers != nil {
			for _, s := range *servers {
				name := s.status.Name
				if present[name] = true; watched[name] == nil {
					var one context.Context
					one, watched[name] = context.WithCancel(ctx)
					watching.Go(func() { g.watchListsOf(one, name) })
				}
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

// watchListsOf notifies the clients of the caller of ctx of changes of its lists of one server, until ctx or Run ends. The host may
// have no server with the name for some time, and another one later.
func (g *Gateway) watchListsOf(ctx context.Context, serverName string) {
	who := server.PrincipalOf(ctx)
	for {
		_, changed := g.registered.version("")
		err := upstream.WatchCaller(g.host, ctx, serverName, func() {
			g.personal.forget(who, serverName)
			g.server.CatalogsChanged(who)
		})
		if !errors.Is(err, host.ErrUnknownServer) {
			if err != nil && !errors.Is(err, host.ErrClosed) {
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
func (p *personal) forget(who principal.Principal, serverName string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.shown {
		if key.caller == who && key.server == serverName {
			delete(p.shown, key)
		}
	}
}

// outdatePersonal is server.Server.PersonalOutdated: another replica has notified clients of a caller, or of any.
func (g *Gateway) outdatePersonal(caller string) (found bool) {
	return upstream.OutdateCallers(g.host, func(who principal.Principal) bool { return caller == "" || who.Key() == caller })
}
