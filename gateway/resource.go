package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// registerResource registers a resource and returns its URI at the gateway, or "" if it
// cannot be registered.
func (g *Gateway) registerResource(serverName, want string, r *mcp.Resource) string {
	logger := g.logger().With("server", serverName, "resource", r.URI)
	return g.registerURI(logger, serverName, r.URI, want, func(uri, prefix string) error {
		resource := *r
		resource.URI = uri
		resource.Name = cmp.Or(r.Name, r.URI)
		resource.Meta = revision.ForwardableMeta(r.Meta)
		err := g.server.RegisterResource(resource, g.read(serverName, prefix), g.forwardUpdates(serverName, prefix),
			g.beforeSubscribe(serverName, prefix))
		if err == nil {
			g.setOrigin(mcp.MethodListResources, uri, host.Request{Method: mcp.MethodReadResource, Server: serverName,
				Kind: host.KindResource, Name: r.URI})
		}
		return err
	})
}

// registerTemplate registers a template and returns its URI template at the gateway, or
// "" if it cannot be registered.
func (g *Gateway) registerTemplate(serverName, want string, t *mcp.ResourceTemplate) string {
	logger := g.logger().With("server", serverName, "template", t.URITemplate)
	return g.registerURI(logger, serverName, t.URITemplate, want, func(uri, prefix string) error {
		template := *t
		template.URITemplate = uri
		template.Name = cmp.Or(t.Name, t.URITemplate)
		template.Meta = revision.ForwardableMeta(t.Meta)
		err := g.server.RegisterTemplate(template, g.readUnlisted(serverName, prefix),
			g.forwardUpdates(serverName, prefix), g.beforeSubscribe(serverName, prefix))
		if err == nil {
			g.setOrigin(mcp.MethodListResourceTemplates, uri,
				host.Request{Method: mcp.MethodReadResource, Server: serverName, Kind: host.KindResource,
					Name: t.URITemplate})
			for _, variable := range variables(t.URITemplate) {
				g.registerCompleter(serverName, mcp.CompleteReference{Type: mcp.RefResource, URI: uri},
					mcp.CompleteReference{Type: mcp.RefResource, URI: t.URITemplate}, variable)
			}
		}
		return err
	})
}

// registerURI registers the wanted URI and returns it. If it cannot be registered, for
// example because the program has registered it, registerURI tries the URI with the name
// of the server as prefix.
func (g *Gateway) registerURI(logger *slog.Logger, serverName, uri, want string,
	register func(uri, prefix string) error) string {
	prefix := prefixOf(serverName)
	if want == uri {
		err := register(uri, "")
		if err == nil {
			return uri
		}
		logger = logger.With("error", err)
	}
	if err := register(prefix+uri, prefix); err != nil {
		logger.Warn("resource not registered", "uri", prefix+uri, "error", err)
		return ""
	}
	if g.main == nil { // else resources always have a prefix
		if want != uri {
			logger = logger.With("reason", "another server has the URI, or may have it")
		}
		logger.Warn("resource renamed", "uri", prefix+uri)
	}
	return prefix + uri
}

// read returns a handler that reads resources from a server. The URIs at the gateway
// have the prefix.
func (g *Gateway) read(serverName, prefix string) server.ResourceHandler {
	return func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		result, err := g.host.ReadResource(ctx, serverName, strings.TrimPrefix(uri, prefix),
			callOptions(ctx, g.options().content)...)
		if err != nil {
			return nil, g.protocolError(ctx, serverName, err)
		}
		strip(&result.ResultBase)
		result.CacheHints = mcp.CacheHints{}
		for i := range result.Contents {
			contents := &result.Contents[i]
			if prefix != "" {
				contents.URI = prefix + contents.URI
			} else {
				contents.URI = g.currentRoutes().uri(serverName, contents.URI)
			}
		}
		return result, nil
	}
}

// readUnlisted is read for a template, which does not have the URIs of other servers, also if the caller
// cannot see these.
func (g *Gateway) readUnlisted(serverName, prefix string) server.ResourceHandler {
	read := g.read(serverName, prefix)
	return func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
		if !g.currentRoutes().has(serverName, prefix, uri) {
			return nil, call.ErrResourceNotFound
		}
		return read(ctx, uri)
	}
}

// forwardUpdates forwards updates of resources while clients are subscribed to them. The
// URIs at the gateway have the prefix.
func (g *Gateway) forwardUpdates(serverName, prefix string) server.ResourceOption {
	return server.WhileSubscribed(func(ctx context.Context, uri string) {
		who := server.PrincipalOf(ctx)
		updated := func() { g.server.ResourceUpdated(uri) }
		if g.main != nil {
			updated = func() { g.main.server.PersonalUpdated(who, uri) }
		}
		ctx = rpc.WithCaller(ctx, rpc.Caller{Owner: who, Permitted: true}) // see beforeSubscribe
		err := g.host.Subscribe(ctx, serverName, strings.TrimPrefix(uri, prefix), updated)
		if err != nil && !errors.Is(err, call.ErrClosed) && !errors.Is(err, host.ErrUnknown) {
			g.logger().Warn("cannot forward updates of a resource", "uri", uri, "error", err)
		}
	})
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
