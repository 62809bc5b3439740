package server

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/modern"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// implementation returns what the server declares about the program.
func (s *Server) implementation() mcp.Implementation {
	i := s.Info
	i.Name, i.Version = cmp.Or(s.Name, i.Name, "parley"), cmp.Or(s.Version, i.Version, "0.0.0")
	return i
}

// capabilities returns the capabilities of 2026-07-28.
func (s *Server) capabilities() mcp.ServerCapabilities {
	c := mcp.ServerCapabilities{Logging: &mcp.Supported{}} // any handler may use Logger
	if s.tools.offered() {
		c.Tools = &mcp.ToolsCapability{ListChanged: true}
	}
	if s.offersResources() {
		c.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	if s.prompts.offered() {
		c.Prompts = &mcp.PromptsCapability{ListChanged: true}
	}
	c.Extensions = s.extensions.declared()
	if s.runsTasks.Load() {
		c.Extensions = maps.Clone(c.Extensions)
		if c.Extensions == nil {
			c.Extensions = make(map[string]json.RawMessage)
		}
		c.Extensions[mcp.ExtensionTasks] = json.RawMessage("{}")
	}
	if s.completes.Load() {
		c.Completions = &mcp.Supported{}
	}
	return c
}

func (s *Server) instructionsFor(who principal.Principal) string {
	if s.InstructionsFor != nil {
		return s.InstructionsFor(who)
	}
	return s.Instructions
}

// describe returns the result of initialize.
func (s *Server) describe(who principal.Principal) mcp.InitializeResult {
	capabilities := s.capabilities()
	if s.runsTasks.Load() {
		capabilities.Tasks = &mcp.TasksCapability{Cancel: &mcp.Supported{}, Requests: &mcp.TaskRequestsCapability{
			Tools: &mcp.TaskToolsCapability{Call: &mcp.Supported{}},
		}}
		if who != principal.Anonymous { // see listTasks
			capabilities.Tasks.List = &mcp.Supported{}
		}
	}
	return mcp.InitializeResult{
		Capabilities: capabilities,
		ServerInfo:   s.implementation(),
		Instructions: s.instructionsFor(who),
	}
}

func (s *Server) discover(_ context.Context, c *rpc.Call) (any, error) {
	hints := s.ListCache.hints(s.InstructionsFor != nil)
	return modern.Discover(s.capabilities(), s.instructionsFor(c.Principal()), hints), nil
}
