package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// lazyTimeout limits how long after its start requests wait for a server. Many clients list only once and do not follow
// changes. Clients are notified when the lists change later.
const lazyTimeout = 10 * time.Second

// unlisted is a server whose lists are unknown and that is starting or will be started by a request.
type unlisted struct {
	prefix string
	until  time.Time // from then on, requests no longer wait for it; zero if it has not started
}

// unlistedServers returns the servers whose lists are not known, by name.
func (g *Gateway) unlistedServers() map[string]unlisted {
	if p := g.lazy.Load(); p != nil {
		return *p
	}
	var all map[string]unlisted // nil before Run
	for _, status := range g.host.Status() {
		all = g.withUnlisted(all, status)
	}
	return all
}

// updateLazy records whether requests start a server, or wait for its first start.
func (g *Gateway) updateLazy(status host.ServerStatus) {
	now := g.withUnlisted(g.unlistedServers(), status)
	g.lazy.Store(&now)
}

// withUnlisted returns servers with one added or removed, as its status demands.
func (g *Gateway) withUnlisted(before map[string]unlisted, status host.ServerStatus) map[string]unlisted {
	s, waits := before[status.Name]
	s.prefix = status.Config.NamePrefix()
	switch {
	case status.Revision != "" || !g.Toolset.mayHave(&status):
		waits = false
	case status.State == host.NotStarted:
		waits, s.until = true, time.Time{}
	case status.State != host.Starting || status.Err != nil:
		waits = false
	case !waits || s.until.IsZero():
		waits, s.until = true, time.Now().Add(lazyTimeout)
	}
	now := maps.Clone(before)
	if now == nil {
		now = make(map[string]unlisted)
	}
	if delete(now, status.Name); waits {
		now[status.Name] = s
	}
	return now
}

// startTime is how long subscriptions to unknown resources wait for servers that are starting. It begins with the
// first such subscription.
const startTime = 5 * time.Second

// startLazy starts the servers whose lists a request needs, and waits for them. It is called for lists, and for
// requests for something that no started server has. A subscription waits for all servers that are starting, because
// clients subscribe again when the gateway has been restarted, and a policy cannot decide about an unknown resource.
func (g *Gateway) startLazy(ctx context.Context, c *call.Call) {
	if c != nil && g.host.Policy != nil && (c.Method() == mcp.MethodSubscribe || c.Method() == mcp.MethodListen) {
		now := time.Now()
		g.firstUnknown.CompareAndSwap(nil, &now)
		waiting, cancel := context.WithDeadline(ctx, g.firstUnknown.Load().Add(startTime))
		defer cancel()
		_ = g.WaitReady(waiting) // afterwards, the server looks for the resource
	}
	if c == nil {
		return
	}
	if all := g.unlistedServers(); len(all) > 0 {
		if needed, until := g.needed(c, all); len(needed) > 0 {
			g.awaitLazy(ctx, needed, until)
		}
	}
}

// notListed returns an error for a request for a tool or prompt that no server lists, if it has the prefix of a server
// whose lists are not known.
func (g *Gateway) notListed(c *call.Call) error {
	if c == nil || c.Method() != mcp.MethodCallTool && c.Method() != mcp.MethodGetPrompt {
		return nil
	}
	for _, status := range g.host.Status() {
		prefix := status.Config.NamePrefix()
		if status.Revision != "" || prefix == "" || !strings.HasPrefix(c.Name(), prefix) ||
			!g.Toolset.mayHave(&status) || status.Config.CallerAuth != nil {
			continue
		}
		switch {
		case status.State == host.Starting && status.Err == nil:
			return jsonrpc.Errorf(jsonrpc.CodeInternalError, "server %q is still starting: try again in some seconds",
				status.Name)
		case status.Err != nil:
			return jsonrpc.Errorf(jsonrpc.CodeInternalError, "server %q is down: %v", status.Name, status.Err)
		}
	}
	return nil
}

// needed returns the servers whose lists a request may need, and until when it waits for them.
func (g *Gateway) needed(c *call.Call, all map[string]unlisted) (needed []string, until time.Time) {
	name := ""
	switch c.Method() {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates,
		mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodListen:
	case mcp.MethodCallTool:
		if name = c.Name(); g.isDiscovery(name) {
			name = ""
		}
	case mcp.MethodGetPrompt:
		name = c.Name()
	default:
		return nil, until
	}
	now := time.Now()
	for server, s := range all {
		if name != "" && !strings.HasPrefix(name, s.prefix) {
			continue
		}
		if s.until.IsZero() {
			s.until = now.Add(lazyTimeout)
		}
		if s.until.After(now) {
			needed = append(needed, server)
		}
		if s.until.After(until) {
			until = s.until
		}
	}
	return needed, until
}

// awaitLazy starts servers and waits until the gateway has registered what they list, or they are down.
func (g *Gateway) awaitLazy(ctx context.Context, servers []string, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	_ = g.host.WaitReady(ctx, servers...) // the instructions name the servers that are missing
	for {
		_, changed := g.registered.version("")
		all := g.unlistedServers()
		if !slices.ContainsFunc(servers, func(name string) bool { _, waits := all[name]; return waits }) {
			return
		}
		if g.registered.wait(ctx, changed) != nil {
			return
		}
	}
}
