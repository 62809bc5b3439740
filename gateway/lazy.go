package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// lazyTimeout limits the wait of a request for the servers that it starts. Clients are notified when the lists change
// later.
const lazyTimeout = 10 * time.Second

// updateLazy records whether requests start a server, or wait for its first start: g.lazy has the prefixes of these
// servers by name.
func (g *Gateway) updateLazy(status host.ServerStatus) {
	var before map[string]string
	if p := g.lazy.Load(); p != nil {
		before = *p
	}
	_, waits := before[status.Name]
	switch {
	case status.State == host.NotStarted && status.Revision == "" && g.Toolset.mayHave(&status):
		waits = true
	case status.State != host.Starting || status.Err != nil:
		waits = false
	}
	now := maps.Clone(before)
	if now == nil {
		now = make(map[string]string)
	}
	if delete(now, status.Name); waits {
		now[status.Name] = configs.Prefix(configOf(&status))
	}
	g.lazy.Store(&now)
}

// startTime is how long subscriptions to unknown resources wait for servers that are starting. It begins with the
// first.
const startTime = 5 * time.Second

// startLazy starts the servers whose lists a request needs, and waits for them. It is called for lists, and for
// requests for what no server has that has started. A subscription waits for all servers that are starting, because
// clients subscribe again when the gateway has been restarted, and a policy cannot decide about an unknown resource.
func (g *Gateway) startLazy(ctx context.Context, c *rpc.Call) {
	if c != nil && g.host.Policy != nil && (c.Method() == mcp.MethodSubscribe || c.Method() == mcp.MethodListen) {
		now := time.Now()
		g.firstUnknown.CompareAndSwap(nil, &now)
		waiting, cancel := context.WithDeadline(ctx, g.firstUnknown.Load().Add(startTime))
		defer cancel()
		_ = g.WaitReady(waiting) // the server looks for the resource then
	}
	if lazy := g.lazy.Load(); c != nil && lazy != nil && len(*lazy) > 0 {
		if needed := g.needed(c, *lazy); len(needed) > 0 {
			g.awaitLazy(ctx, needed)
		}
	}
}

// needed returns the servers whose lists a request may need.
func (g *Gateway) needed(c *rpc.Call, lazy map[string]string) []string {
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
		return nil
	}
	var needed []string
	for server, prefix := range lazy {
		if name == "" || strings.HasPrefix(name, prefix) {
			needed = append(needed, server)
		}
	}
	return needed
}

// awaitLazy starts servers and waits until the gateway has registered what they list, or they are down.
func (g *Gateway) awaitLazy(ctx context.Context, servers []string) {
	ctx, cancel := context.WithTimeout(ctx, lazyTimeout)
	defer cancel()
	_ = g.host.WaitReady(ctx, servers...) // lists name the servers that are missing
	for {
		_, changed := g.registered.version("")
		lazy := *g.lazy.Load()
		if !slices.ContainsFunc(servers, func(name string) bool { _, waits := lazy[name]; return waits }) {
			return
		}
		if g.registered.wait(ctx, changed) != nil {
			return
		}
	}
}
