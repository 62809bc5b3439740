package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Gateway has a server offer what the servers of a host offer, and follow their changes.
// Its exported fields are set before Run.
type Gateway struct {
	// Timeout is how long a tool may be silent before its call is given up, or a
	// resource or prompt: a report of progress begins it anew. The default is ten
	// minutes; whoever calls the gateway has time-outs too.
	Timeout time.Duration

	// Logger takes what could not be offered, or not under its own name; nil:
	// slog.Default().
	Logger *slog.Logger

	host   *host.Host
	server *server.Server

	// Run's own.
	tools     shelf[mcp.Tool]
	prompts   shelf[mcp.Prompt]
	resources shelf[mcp.Resource]
	templates shelf[mcp.ResourceTemplate]

	toolNames, promptNames names
}

const defaultTimeout = 10 * time.Minute

// New makes s the face of h: s has tools, resources and prompts from now on, even while
// there are none. More can be registered with s.
func New(h *host.Host, s *server.Server) *Gateway {
	s.OfferTools()
	s.OfferResources()
	s.OfferPrompts()
	g := &Gateway{host: h, server: s}
	g.tools = shelf[mcp.Tool]{kind: "tool", key: func(t *mcp.Tool) string { return t.Name }, offer: g.offer, withdraw: func(name string) {
		s.RemoveTool(name)
		g.toolNames.free(name)
	}}
	g.prompts = shelf[mcp.Prompt]{kind: "prompt", key: func(p *mcp.Prompt) string { return p.Name }, offer: g.offerPrompt, withdraw: func(name string) {
		s.RemovePrompt(name)
		g.promptNames.free(name)
	}}
	g.resources = shelf[mcp.Resource]{kind: "resource", key: func(r *mcp.Resource) string { return r.URI }, offer: g.offerResource, withdraw: func(uri string) { s.RemoveResource(uri) }}
	g.templates = shelf[mcp.ResourceTemplate]{kind: "template", key: func(t *mcp.ResourceTemplate) string { return t.URITemplate }, offer: g.offerTemplate, withdraw: func(uri string) { s.RemoveTemplate(uri) }}
	return g
}

// Run offers what the host's servers have, and follows their changes until ctx or the
// host ends. The host has been started before. A Gateway runs once.
func (g *Gateway) Run(ctx context.Context) {
	for status := range g.host.Watch(ctx) {
		if status.State == host.Ready {
			g.update(status)
		}
	}
}

// update makes what is offered of a server what it has.
func (g *Gateway) update(status host.Status) {
	g.prompts.update(g.logger(), status.Name, status.Prompts)
	g.resources.update(g.logger(), status.Name, status.Resources)
	g.templates.update(g.logger(), status.Name, status.Templates)
	g.tools.update(g.logger(), status.Name, status.Tools)
}

// offer registers a tool and returns its name here, or "" if it cannot be offered.
func (g *Gateway) offer(serverName string, tool *mcp.Tool) string {
	logger := g.logger().With("server", serverName, "tool", tool.Name)
	if tool.Execution != nil && tool.Execution.TaskSupport == mcp.TaskRequired {
		logger.Warn("tool left out: it can only be called as a task, which is not passed on")
		return ""
	}
	name, plain := g.toolNames.take(serverName, tool.Name)
	if !plain {
		logger.Warn("tool renamed", "name", name)
	}
	shown := *tool
	shown.Name = name
	shown.Execution = nil
	shown.Meta = passable(tool.Meta)
	call := g.forward(serverName, tool.Name)
	err := g.server.RegisterTool(shown, call)
	if err != nil && shown.OutputSchema != nil {
		logger.Warn("output schema left out", "error", err)
		shown.OutputSchema = nil
		err = g.server.RegisterTool(shown, call)
	}
	if err != nil {
		logger.Warn("tool left out", "error", err)
		g.toolNames.free(name)
		return ""
	}
	return name
}

func (g *Gateway) logger() *slog.Logger {
	if g.Logger != nil {
		return g.Logger
	}
	return slog.Default()
}
