package server

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// Catalog contains tools, prompts, resources, templates and extensions. Every [Server] embeds one, which is for all
// callers; [Server.Catalogs] adds further ones for some of them, such as the callers of one tenant, session or plug-in.
//
// Subscribed clients are notified when a tool, prompt, resource or template is added or removed, and when
// [Catalog.ResourceUpdated] is called. Changes of one kind within 50 ms become one notification. A client that is not
// connected at the time is not notified later.
//
// The zero Catalog is empty. A Catalog is safe for concurrent use and must not be copied.
type Catalog struct {
	tools      entries[*toolEntry]
	resources  entries[*resourceEntry]
	templates  templateSet
	prompts    entries[*promptEntry]
	extensions extensions

	budget schema.Budget // of the schemas of forwarded tools

	completes atomic.Bool // an argument has a completer
	runsTasks atomic.Bool // a tool runs as a task
	follows   atomic.Bool // a resource has WhileSubscribed

	attached sync.RWMutex
	servers  []weak.Pointer[Server] // that serve it; it may live longer than they do
}

// Registrar is a [*Server], a [*Catalog], or a struct that embeds one of them: anything to which the functions of this
// package, and of packages such as skills, can add a tool, prompt or resource.
type Registrar interface{ catalog() *Catalog }

// CatalogOf returns the catalog to which the functions of this package add. For a [*Server] it is the Catalog that the
// server embeds.
func CatalogOf(to Registrar) *Catalog { return to.catalog() }

func (c *Catalog) catalog() *Catalog { return c }

// attach makes s serve c: its clients are notified of changes, and it logs what cannot be checked. It is called for
// each list, so that s learns what was added to c since.
func (c *Catalog) attach(s *Server) {
	if c.completes.Load() {
		s.completes.Store(true)
	}
	if c.runsTasks.Load() {
		s.runsTasks.Store(true)
	}
	if c.follows.Load() {
		s.follows.Store(true)
	}
	is := func(p weak.Pointer[Server]) bool { return p.Value() == s }
	c.attached.RLock()
	known := slices.ContainsFunc(c.servers, is)
	c.attached.RUnlock()
	if known {
		return
	}
	c.attached.Lock()
	c.servers = slices.DeleteFunc(c.servers, func(p weak.Pointer[Server]) bool { return p.Value() == nil || is(p) })
	c.servers = append(c.servers, weak.Make(s))
	c.attached.Unlock()
	for _, e := range c.tools.snapshot().entries {
		e.logUnchecked(s.logger())
	}
}

func (c *Catalog) servedBy() []*Server {
	c.attached.RLock()
	defer c.attached.RUnlock()
	servers := make([]*Server, 0, len(c.servers))
	for _, p := range c.servers {
		if s := p.Value(); s != nil {
			servers = append(servers, s)
		}
	}
	return servers
}

func (c *Catalog) logger() *slog.Logger {
	for _, s := range c.servedBy() {
		return s.logger()
	}
	return slog.Default()
}

// register adds an entry, and notifies the clients that can see it.
func register[E entry](c *Catalog, k *kind[E], e E) error {
	if err := k.of(c).add(e.common().name, e); err != nil {
		return err
	}
	c.changed(k.change, e.common())
	return nil
}

// unregister removes an entry and reports whether it existed. It notifies the clients that could see it.
func unregister[E entry](c *Catalog, k *kind[E], name string) bool {
	e, was := k.of(c).remove(name)
	if was {
		if tool, ok := any(e).(*toolEntry); ok {
			tool.release()
		}
		c.changed(k.change, e.common())
	}
	return was
}

// changed notifies clients of a change of an entry.
func (c *Catalog) changed(kind changes.Kind, of *offer) {
	for _, s := range c.servedBy() {
		s.publish(c, announcement{Kind: kind, Name: of.name, Hidden: of.restricted()}, of.audience())
		s.followers.changed()
	}
}

// ResourceUpdated tells subscribed clients, on all replicas, that the contents of a resource have changed. With
// callers, it tells only the clients of these callers, who have the resource in a catalog of their own. The resource
// need not be in a list. ResourceUpdated does not block and is safe for concurrent use. (2026-07-28, server/resources,
// Subscriptions.)
func (c *Catalog) ResourceUpdated(uri string, callers ...principal.Principal) {
	for _, s := range c.servedBy() {
		if len(callers) == 0 {
			s.publish(c, announcement{Kind: changes.ResourceUpdated, URI: uri}, c.readersOf(uri))
		}
		for _, caller := range callers {
			s.publishTo(caller, changes.Change{Kind: changes.ResourceUpdated, URI: uri})
		}
	}
}

// Declare makes the server declare the capabilities for some methods even while c contains nothing that needs them, so
// that clients which connect now are notified of what is added later. It accepts mcp.MethodCallTool,
// mcp.MethodGetPrompt, mcp.MethodReadResource, mcp.MethodComplete, and mcp.MethodGetTask for tasks, and ignores other
// methods.
func (c *Catalog) Declare(methods ...string) {
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
		case mcp.MethodGetTask:
			c.runsTasks.Store(true)
		}
	}
}
