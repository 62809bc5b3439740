package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Gateway keeps the tools of a server those of a host's servers. Its exported
// fields are set before Run.
type Gateway struct {
	// Timeout is how long a tool may be silent before its call is given up: a report
	// of progress begins it anew. The default is ten minutes; whoever calls the
	// gateway has time-outs too.
	Timeout time.Duration

	// Logger takes what could not be offered, or not under its own name; nil:
	// slog.Default().
	Logger *slog.Logger

	host   *host.Host
	server *server.Server

	// Run's own.
	names   names
	offered map[string]map[string]offer // by server, and tool on that server
}

// offer is a tool as it was registered.
type offer struct {
	name       string // here
	definition []byte
}

const defaultTimeout = 10 * time.Minute

// New makes s the face of h: s has tools from now on, even while there are none.
// More can be registered with s.
func New(h *host.Host, s *server.Server) *Gateway {
	s.OfferTools()
	return &Gateway{host: h, server: s, offered: make(map[string]map[string]offer)}
}

// Run offers the tools of the host's servers, and follows their changes until ctx or
// the host ends. The host has been started before. A Gateway runs once.
func (g *Gateway) Run(ctx context.Context) {
	for status := range g.host.Watch(ctx) {
		if status.State == host.Ready {
			g.update(status)
		}
	}
}

// update makes what is offered of a server what it has.
func (g *Gateway) update(status host.Status) {
	before := g.offered[status.Name]
	now := make(map[string]offer, len(status.Tools))
	for i := range status.Tools {
		tool := &status.Tools[i]
		definition, err := json.Marshal(tool)
		if err != nil {
			g.logger().Warn("tool left out: it cannot be encoded", "server", status.Name, "tool", tool.Name, "error", err)
			continue
		}
		if o, ok := before[tool.Name]; ok && bytes.Equal(o.definition, definition) {
			now[tool.Name] = o
		} else if _, twice := now[tool.Name]; twice {
			g.logger().Warn("tool left out: the server lists it twice", "server", status.Name, "tool", tool.Name)
		} else {
			now[tool.Name] = offer{definition: definition}
		}
	}
	for own, o := range before {
		if now[own].name != o.name {
			g.server.RemoveTool(o.name)
			g.names.free(o.name)
		}
	}
	for i := range status.Tools {
		tool := &status.Tools[i]
		if o, ok := now[tool.Name]; ok && o.name == "" {
			if o.name = g.offer(status.Name, tool); o.name == "" {
				delete(now, tool.Name)
			} else {
				now[tool.Name] = o
			}
		}
	}
	g.offered[status.Name] = now
}

// offer registers a tool and returns its name here, or "" if it cannot be offered.
func (g *Gateway) offer(serverName string, tool *mcp.Tool) string {
	logger := g.logger().With("server", serverName, "tool", tool.Name)
	if tool.Execution != nil && tool.Execution.TaskSupport == mcp.TaskRequired {
		logger.Warn("tool left out: it can only be called as a task, which is not passed on")
		return ""
	}
	name, plain := g.names.take(serverName, tool.Name)
	if !plain {
		logger.Warn("tool renamed", "name", name)
	}
	shown := *tool
	shown.Name = name
	shown.Execution = nil
	call := g.forward(serverName, tool.Name)
	err := g.server.RegisterTool(shown, call)
	if err != nil && shown.OutputSchema != nil {
		logger.Warn("output schema left out", "error", err)
		shown.OutputSchema = nil
		err = g.server.RegisterTool(shown, call)
	}
	if err != nil {
		logger.Warn("tool left out", "error", err)
		g.names.free(name)
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
