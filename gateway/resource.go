package gateway

import (
	"context"
	"errors"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// read returns a handler that reads resources from a server. prefix is the prefix of
// the URIs at the gateway.
func (g *Gateway) read(serverName, prefix string) func(context.Context, string) (*mcp.ReadResourceResult, error) {
	return func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		result, err := g.readSkill(ctx, serverName, strings.TrimPrefix(uri, prefix))
		if err != nil {
			return nil, g.protocolError(ctx, serverName, err)
		}
		result.CacheHints = mcp.CacheHints{}
		for i := range result.Contents {
			contents := &result.Contents[i]
			if prefix != "" {
				contents.URI = prefix + contents.URI
			} else {
				contents.URI = g.routes.Load().uri(serverName, contents.URI)
			}
		}
		return result, nil
	}
}

// readUnlisted returns a handler that reads resources of a template, as read does. It does not serve
// URIs of other servers, even if the caller cannot see those.
func (g *Gateway) readUnlisted(
	serverName, prefix string,
) func(context.Context, string) (*mcp.ReadResourceResult, error) {
	read := g.read(serverName, prefix)
	return func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		if !g.routes.Load().has(serverName, prefix, uri) {
			return nil, call.ErrResourceNotFound
		}
		return read(ctx, uri)
	}
}

// forwardUpdates forwards updates of resources while clients are subscribed to them.
// prefix is the prefix of the URIs at the gateway.
func (v *view) forwardUpdates(serverName, prefix string) server.Option {
	return server.WhileSubscribed(func(ctx context.Context, uri string) {
		who := server.PrincipalOf(ctx)
		updated := func() { v.server.ResourceUpdated(uri) }
		if v.ofCallers {
			updated = func() { v.server.ResourceUpdated(uri, who) }
		}
		// see beforeSubscribe
		err := v.host.Client(serverName).Follow(v.withCaller(ctx), strings.TrimPrefix(uri, prefix), updated)
		if err != nil && !errors.Is(err, call.ErrClosed) && !errors.Is(err, host.ErrUnknown) {
			v.logger().Warn("cannot forward updates of a resource", "uri", uri, "error", err)
		}
	})
}
