package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// unlistTools leaves the tools with these names out of tools/list. Clients can still call them. It is for
// servers with more tools than a model can use at once, which offer tools to search for them:
// lookupTool finds an unlisted tool, and a tool of registerToolCaller calls it.
//
// The names replace those of the previous call; without names, all tools are listed. A tool with one of
// the names may be added later. Clients are notified that the list has changed. Safe while the server
// serves.
func (s *Server) unlistTools(names ...string) {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	if s.tools.unlist(set) {
		s.changes.Publish(changes.Change{Kind: changes.ToolsChanged})
		s.replicas.announce(announcement{Kind: changes.ToolsChanged})
	}
}

// lookupTool returns the definition of a tool that the caller can see and that link.Hooks does not hide, listed or not.
// The caller is that of the call with the context ctx; see [VisibleTo]. The definition must not be modified.
func (s *Server) lookupTool(ctx context.Context, name string) (tool mcp.Tool, ok bool) {
	who := PrincipalOf(ctx)
	e, from, ok, err := findFor(ctx, s, &toolKind, name, who)
	if err != nil || !ok || s.hides(who, mcp.MethodListTools, name) || from != nil && from.hides(who, mcp.MethodListTools, name) {
		return mcp.Tool{}, false
	}
	return e.tool, true
}

// registerToolCaller adds a tool with which clients call other tools of the server, such as unlisted ones.
// target returns the name and the arguments of the other tool for the arguments of a call, which have
// passed the input schema of tool. Nil arguments mean an empty object. The other tool serves the call as
// if the client had named it: its arguments and result are validated, it needs the scopes of
// [RequireScopes], and it can report progress, ask the client and run as a task. Middleware sees the name
// that the client has sent.
//
// An error of target is a tool error, and so is a name that the caller cannot see or that of a tool
// that calls other tools. target must be safe for concurrent use and return the same for the same
// arguments. registerToolCaller returns an error where [Catalog.RegisterTool] does. Safe while the
// server serves.
func (s *Server) registerToolCaller(tool mcp.Tool, target link.ToolTarget, options ...ToolOption) error {
	if target == nil {
		return fmt.Errorf("tool %q: target must not be nil", tool.Name)
	}
	input, err := schema.Compile(tool.InputSchema)
	if err != nil {
		return fmt.Errorf("tool %q: input schema: %w", tool.Name, err)
	}
	if err := s.addTool(&toolEntry{tool: tool, input: input, target: target}, options); err != nil {
		return fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	return nil
}

// targetOf returns the tool that serves a call of entry, and its arguments. That is entry itself unless
// it calls other tools. The error is for the model. Without the context of a call, the tools of Personal are not found.
func (s *Server) targetOf(ctx context.Context, entry *toolEntry, arguments json.RawMessage, who principal.Principal) (*toolEntry, json.RawMessage, error) {
	if entry.target == nil {
		return entry, arguments, nil
	}
	if err := entry.input.Validate(arguments); err != nil {
		return nil, nil, invalidArguments(err)
	}
	name, arguments, err := entry.target(arguments)
	if err != nil {
		return nil, nil, err
	}
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	target, _, ok, err := findFor(ctx, s, &toolKind, name, who)
	switch {
	case err != nil:
		return nil, nil, err
	case !ok:
		return nil, nil, fmt.Errorf("unknown tool: %.128q", name)
	case target.target != nil:
		return nil, nil, fmt.Errorf("tool %q calls other tools: call it directly", name)
	case !isObject(arguments):
		return nil, nil, fmt.Errorf("the arguments of tool %q must be an object", name)
	}
	return target, arguments, nil
}
