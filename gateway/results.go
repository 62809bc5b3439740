package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// registerResults registers the template of large results when a server has a limit; see
// host.ServerConfig.MaxResult.
func (g *Gateway) registerResults(status host.ServerStatus) {
	if status.MaxResult <= 0 || g.results {
		return
	}
	err := g.server.RegisterTemplate(mcp.ResourceTemplate{
		URITemplate: host.ResultURI + "{server}/{id}",
		Name:        "large-results",
		Title:       "Large results of tools",
		Description: "The whole result of a tool, for one hour. A call with a large result returns a link to it.",
	}, g.readResult)
	if err != nil {
		g.logger().Warn("template of large results not registered", "error", err)
		return
	}
	g.results = true
}

// readResult reads a large result.
func (g *Gateway) readResult(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	serverName, _, _ := strings.Cut(strings.TrimPrefix(uri, host.ResultURI), "/")
	if !slices.ContainsFunc(g.host.Status(), func(s host.ServerStatus) bool { return s.Name == serverName && s.MaxResult > 0 }) {
		return nil, server.ErrResourceNotFound
	}
	result, err := g.host.ReadResource(ctx, serverName, uri)
	if err != nil {
		return nil, g.protocolError(ctx, serverName, err)
	}
	return result, nil
}
