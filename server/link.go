package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// The functions of package link for the gateway and for mock servers.
func init() {
	link.Set(link.Server[Server, Catalog, Option]{
		Hooks:                func(s *Server) *link.Hooks { return &s.hooks },
		Declare:              (*Catalog).declare,
		Origin:               func(of any) Option { return ofAll(func(o *offer) { o.origin = of }) },
		Completes:            completeAll,
		RemoveExtension:      func(c *Catalog, id string) bool { return c.extensions.remove(id) },
		Tool:                 (*Catalog).toolFor,
		ForwardTool:          (*Catalog).forwardTool,
		Within:               within,
		RegisterToolCaller:   (*Catalog).registerToolCaller,
		RecheckSubscriptions: (*Server).recheckSubscriptions,
		ResourceUpdated: func(s *Server, caller principal.Principal, uri string) {
			s.publishTo(caller, changes.Change{Kind: changes.ResourceUpdated, URI: uri})
		},
	})
}

// within counts the memory of the schemas of a forwarded tool towards a budget.
func within(budget *schema.Budget) Option {
	return ofTool("Within", func(e *toolEntry) { e.budget = budget })
}

// hiddenFrom returns a function that reports which entries are left out of a list for a caller; nil if none is.
func (s *Server) hiddenFrom(who principal.Principal, list string) func(origin any) bool {
	if s.hooks.Hide == nil {
		return nil
	}
	return s.hooks.Hide(who, list)
}

// notifiedOf returns a function that reports who of those with c is notified of updates of a resource; nil means every
// subscriber.
func (s *Server) notifiedOf(c *Catalog, uri string) func(principal.Principal) bool {
	readers := c.readersOf(uri)
	if s.hooks.HideUpdate == nil {
		return readers
	}
	return func(who principal.Principal) bool {
		return (readers == nil || readers(who)) && !s.hooks.HideUpdate(who, uri)
	}
}

// declare declares the capabilities for methods even while there are no entries.
func (c *Catalog) declare(methods ...string) {
	for _, method := range methods {
		switch method {
		case mcp.MethodCallTool:
			c.tools.offer()
		case mcp.MethodGetPrompt:
			c.prompts.offer()
		case mcp.MethodReadResource:
			c.resources.offer()
		case mcp.MethodComplete:
			c.completes.Store(true)
		}
	}
}

// toolFor returns the definition and the origin of a tool that a caller can see, or nil. The definition must not be
// modified.
func (c *Catalog) toolFor(who principal.Principal, name string) (tool *mcp.Tool, origin any) {
	if e, ok := c.tools.find(name, who); ok {
		return &e.tool, e.origin
	}
	return nil, nil
}

// recheckSubscriptions calls the functions of [BeforeSubscribe] again, because they may have another result now. A
// subscription of 2026-07-28 with a resource that is rejected ends, and the client can subscribe again to the others.
// Subscriptions of sessions continue; see link.Hooks for those. It does not block and is safe for concurrent use.
func (s *Server) recheckSubscriptions() {
	s.rechecks.mu.Lock()
	defer s.rechecks.mu.Unlock()
	if s.rechecks.next != nil {
		close(s.rechecks.next)
		s.rechecks.next = nil
	}
}

// rechecks announces calls of recheckSubscriptions.
type rechecks struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next call; nil if nothing waits for it
}

// wait returns a channel that the next call closes.
func (r *rechecks) wait() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// registerToolCaller adds a tool with which clients call other tools of the server, such as hidden ones.
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
func (c *Catalog) registerToolCaller(tool mcp.Tool, target link.ToolTarget, options ...Option) error {
	if target == nil {
		return fmt.Errorf("tool %q: target must not be nil", tool.Name)
	}
	input, err := schema.Compile(tool.InputSchema)
	if err != nil {
		return fmt.Errorf("tool %q: input schema: %w", tool.Name, err)
	}
	if err := c.addTool(&toolEntry{tool: tool, input: input, target: target}, options); err != nil {
		return fmt.Errorf("tool %q: %w", tool.Name, err)
	}
	return nil
}

// targetOf returns the tool that serves a call of entry, and its arguments. That is entry itself unless
// it calls other tools. The error is for the model.
func (s *Server) targetOf(
	ctx context.Context, entry *toolEntry, arguments json.RawMessage,
) (*toolEntry, json.RawMessage, error) {
	if entry.target == nil {
		return entry, arguments, nil
	}
	arguments, _, err := conform(entry.input, arguments, false)
	if err != nil {
		return nil, nil, invalidArguments(err)
	}
	name, arguments, err := entry.target(arguments)
	if err != nil {
		return nil, nil, err
	}
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	target, ok, err := findFor(ctx, s, &toolKind, name)
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
