package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// lazyTimeout limits the wait of a request for the servers that it starts. Clients are notified when the lists change
// later.
const lazyTimeout = 10 * time.Second

// updateLazy records whether requests start a server, or wait for its first start.
func (g *Gateway) updateLazy(ctx context.Context, status host.ServerStatus) {
	if !g.startsLazy {
		if status.State == host.NotStarted {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_ = g.host.WaitReady(ended, status.Name) // starts it, and does not wait
		}
		return
	}
	var before map[string]string
	if p := g.lazy.Load(); p != nil {
		before = *p
	}
	_, waits := before[status.Name]
	switch {
	case status.State == host.NotStarted && g.Toolset.mayHave(&status):
		waits = true
	case status.State != host.Starting || status.Err != nil:
		waits = false
	}
	now := maps.Clone(before)
	if now == nil {
		now = make(map[string]string)
	}
	if delete(now, status.Name); waits {
		now[status.Name] = status.Prefix
	}
	g.lazy.Store(&now)
}

// startLazy is middleware that starts the servers whose lists a request needs, and waits for them.
func (g *Gateway) startLazy(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		if lazy := g.lazy.Load(); lazy != nil && len(*lazy) > 0 {
			if needed := g.needed(c, *lazy); len(needed) > 0 {
				g.awaitLazy(ctx, needed)
			}
		}
		return next(ctx, c)
	}
}

// needed returns the servers whose lists a request may need.
func (g *Gateway) needed(c *call.Call, lazy map[string]string) []string {
	name := ""
	switch c.Method() {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodReadResource, mcp.MethodSubscribe:
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
		select {
		case <-changed:
		case <-g.registered.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
