package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// features finds the targets of the calls of a server. A call is resolved once: the engine authorizes the entry that
// Resolve returns, and its handler uses that entry, even if another one has its name by then. It implements
// rpc.Feature.
type features struct {
	server  *Server
	methods map[string]*method
}

// method is how a server serves a method.
type method struct {
	offered func() bool // reports whether the server has the capability; nil: always
	// resolve returns the entry that a call names, and the scopes that it needs; nil: calls name none. See rpc.Feature.
	resolve func(ctx context.Context, c *rpc.Call) (entry any, needs []string, err error)
	serve   rpc.Handler
	open    bool // an extension may have the method in place of the server
}

func newFeatures(s *Server) *features {
	tools, resources, prompts := s.tools.offered, s.offersResources, s.prompts.offered
	// Without a list, the server does not know what its other catalogs have.
	tasks := func() bool { return s.Catalogs != nil || s.runsTasks.Load() }
	completes := func() bool { return s.Catalogs != nil || s.completes.Load() }
	f := &features{s, map[string]*method{
		mcp.MethodDiscover:              {serve: s.discover},
		mcp.MethodSetLevel:              {serve: s.setLevel},
		mcp.MethodListTools:             {offered: tools, serve: s.listTools},
		mcp.MethodCallTool:              {offered: tools, resolve: s.resolveTool, serve: s.callTool},
		mcp.MethodListResources:         {offered: resources, serve: s.listResources},
		mcp.MethodListResourceTemplates: {offered: resources, serve: s.listTemplates},
		mcp.MethodReadResource:          {offered: resources, resolve: s.resolveResource, serve: s.readResource},
		mcp.MethodSubscribe:             {offered: resources, resolve: s.resolveSubscription, serve: s.subscribe},
		mcp.MethodUnsubscribe:           {offered: resources, serve: s.unsubscribe},
		mcp.MethodListen:                {resolve: s.resolveListen, serve: s.listen},
		mcp.MethodListPrompts:           {offered: prompts, serve: s.listPrompts},
		mcp.MethodGetPrompt:             {offered: prompts, resolve: s.resolvePrompt, serve: s.getPrompt},
		mcp.MethodComplete:              {offered: completes, resolve: s.resolveCompletion, serve: s.complete},
		mcp.MethodGetTask:               {offered: tasks, resolve: declaresTasks, serve: s.getTask},
		mcp.MethodUpdateTask:            {offered: tasks, resolve: declaresTasks, serve: s.updateTask},
		mcp.MethodCancelTask:            {offered: tasks, resolve: declaresTasks, serve: s.cancelTask},
		mcp.MethodTaskResult:            {offered: tasks, resolve: declaresTasks, serve: s.taskResult},
		mcp.MethodListTasks:             {offered: tasks, resolve: declaresTasks, serve: s.listTasks},
	}}
	if s.RootsChanged != nil || len(s.Middleware) > 0 { // otherwise nothing notices it
		changed := func(ctx context.Context, _ *rpc.Call) (any, error) {
			if s.RootsChanged != nil {
				s.RootsChanged(ctx)
			}
			return &mcp.EmptyResult{}, nil
		}
		f.methods[mcp.NotificationRootsListChanged] = &method{serve: changed}
	}
	for name, m := range f.methods {
		// the program may have the extension, such as that of tasks
		m.open = revision.LeavesToExtensions(name, mcp.V20260728)
	}
	return f
}

// Handles implements rpc.Feature.
func (f *features) Handles(method string) bool {
	return f.methods[method] != nil || f.server.extensions.has(method)
}

// Resolve implements rpc.Feature.
func (f *features) Resolve(ctx context.Context, c *rpc.Call) (t rpc.Target, needs []string, err error) {
	m := f.methods[c.Method()]
	if m == nil || m.open {
		if t.Serve, err = f.server.extensions.resolve(c.Method(), f.server.capabilities); t.Serve != nil {
			return t, nil, err
		}
	}
	if m == nil || m.offered != nil && !m.offered() {
		return t, nil, rpc.MethodNotFound(c)
	}
	t.Serve = m.serve
	if m.resolve != nil {
		t.Entry, needs, err = m.resolve(ctx, c)
	}
	return t, needs, err
}
