package gateway

import (
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// hideDenied is the filter for entries that only some callers have: it hides what the policy denies to a caller
// whatever the arguments are. Subjects are of type *host.Request.
func (g *Gateway) hideDenied(caller principal.Principal, _ string) func(subject any) bool {
	hides := g.host.Hides(caller)
	if hides == nil {
		return nil
	}
	return func(subject any) bool { return hides(subject.(*host.Request)) }
}

// hide is the filter for entries that all callers have: it also hides the tools that clients search for.
func (g *Gateway) hide(caller principal.Principal, method string) func(subject any) bool {
	if method == mcp.MethodListTools && !g.discovery.lists() {
		return func(any) bool { return true }
	}
	return g.hideDenied(caller, method)
}

// updatesFor notifies the callers to whom the policy does not deny the subscription. prefix is the prefix of the URIs
// at the gateway.
func (v *view) updatesFor(serverName, prefix string) []server.Option {
	if v.host.Policy == nil {
		return nil
	}
	return []server.Option{server.UpdatesFor(func(caller principal.Principal, uri string) bool {
		hides := v.host.Hides(caller)
		return hides == nil || !v.routes.Load().has(serverName, prefix, uri) || !hides(&host.Request{
			Method: mcp.MethodSubscribe, Server: serverName, Kind: host.KindResource,
			Name: strings.TrimPrefix(uri, prefix),
		})
	})}
}
