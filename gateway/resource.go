package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// offerResource registers a resource and returns its URI here, or "" if it cannot be
// offered.
func (g *Gateway) offerResource(serverName string, r *mcp.Resource) string {
	return place(g.logger().With("server", serverName, "resource", r.URI), serverName, r.URI, func(uri, prefix string) error {
		shown := *r
		shown.URI = uri
		shown.Meta = passable(r.Meta)
		return g.server.RegisterResource(shown, g.read(serverName, prefix), g.follow(serverName, prefix))
	})
}

// offerTemplate registers a template and returns it as it is here, or "" if it cannot
// be offered.
func (g *Gateway) offerTemplate(serverName string, t *mcp.ResourceTemplate) string {
	return place(g.logger().With("server", serverName, "template", t.URITemplate), serverName, t.URITemplate, func(uri, prefix string) error {
		shown := *t
		shown.URITemplate = uri
		shown.Meta = passable(t.Meta)
		err := g.server.RegisterTemplate(shown, g.read(serverName, prefix), g.follow(serverName, prefix))
		if err == nil {
			for _, variable := range variables(t.URITemplate) {
				g.complete(serverName, mcp.CompleteReference{Type: mcp.RefResource, URI: uri}, mcp.CompleteReference{Type: mcp.RefResource, URI: t.URITemplate}, variable)
			}
		}
		return err
	})
}

// place registers a URI as it is or, if that is taken, behind the server's name.
func place(logger *slog.Logger, serverName, uri string, register func(uri, prefix string) error) string {
	err := register(uri, "")
	if err == nil {
		return uri
	}
	prefix := "server:" + serverName + "/"
	if register(prefix+uri, prefix) != nil {
		logger.Warn("left out", "error", err)
		return ""
	}
	logger.Warn("renamed", "uri", prefix+uri, "error", err)
	return prefix + uri
}

// read returns the handler of resources whose URIs here are prefix and those there.
func (g *Gateway) read(serverName, prefix string) server.ResourceHandler {
	return func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		result, err := g.host.ReadResource(ctx, serverName, strings.TrimPrefix(uri, prefix), g.options(ctx)...)
		if err != nil {
			return nil, report(ctx, serverName, err)
		}
		strip(&result.ResultBase)
		result.CacheHints = mcp.CacheHints{}
		for i := range result.Contents {
			result.Contents[i].URI = prefix + result.Contents[i].URI
		}
		return result, nil
	}
}

// follow passes updates of resources on, whose URIs here are prefix and those there,
// while clients are subscribed to them.
func (g *Gateway) follow(serverName, prefix string) server.ResourceOption {
	return server.WhileSubscribed(func(ctx context.Context, uri string) {
		err := g.host.Follow(ctx, serverName, strings.TrimPrefix(uri, prefix), func() { g.server.ResourceUpdated(uri) })
		if err != nil && !errors.Is(err, host.ErrClosed) {
			g.logger().Warn("updates are not passed on", "uri", uri, "error", err)
		}
	})
}

// report makes an error for whoever asked for a resource, a prompt or a completion:
// explain's, as what the protocol has for it, since an ordinary one would not be told.
func report(ctx context.Context, serverName string, err error) error {
	if errors.Is(err, client.ErrResourceNotFound) {
		return server.ErrResourceNotFound
	}
	err = explain(ctx, serverName, err)
	var reported *jsonrpc.Error
	if errors.As(err, &reported) {
		return err
	}
	return jsonrpc.Errorf(jsonrpc.CodeInternalError, "%s", err)
}

// variables returns the names of a template's variables (RFC 6570, section 2.3).
func variables(template string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(template, "{")
		expression, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return names
		}
		for _, name := range strings.Split(strings.TrimLeft(expression, "+#./;?&"), ",") {
			name, _, _ = strings.Cut(strings.TrimSuffix(name, "*"), ":")
			names = append(names, name)
		}
		template = after
	}
}
