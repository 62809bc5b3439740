package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Gateway registers the tools, prompts and resources of a host's servers with one
// server and updates them when they change. Set the fields before Run and do not change
// them afterwards.
type Gateway struct {
	// Timeout limits the time that a request to a server may take without progress.
	// Each progress notification restarts it. 0 means 10 minutes. It is longer than the
	// usual time-outs of clients, which end a request before it.
	Timeout time.Duration

	// ListBudget is the maximum size of the definitions of all tools together in tools/list, in bytes of JSON; a token
	// of a model is about four bytes. If they are larger, the list has three tools instead: search_tools finds tools,
	// describe_tool returns the definition of one, and call_tool calls it. The other tools can still be called by their
	// names, too. 0 means no limit. If it is negative, clients always search. The tools that a caller has of servers
	// with CallerAuth count for this caller; if they exceed the limit together with the others, the caller searches for
	// them.
	ListBudget int

	// OnCatalog, if set, is called by Run with the size of the catalogue when it has changed.
	OnCatalog func(Catalog)

	// Toolset, if set, selects what the gateway registers. Several gateways, each with a server
	// of its own, can serve different toolsets of one host.
	Toolset *Toolset

	// Logger receives a warning for each tool, prompt, resource or template that the
	// gateway cannot register, or registers under another name. Nil means
	// slog.Default().
	Logger *slog.Logger

	host   *host.Host
	server *server.Server
	routes atomic.Pointer[routes]

	firstUnknown atomic.Pointer[time.Time] // see admitUnknown

	options  func() requestOptions
	notAdded error // of the extensions that New could not register; may be nil

	extensions extensions
	discovery  discovery
	registered *registered
	origins    sync.Map // from listedEntry to host.Request, see hide
	// the prefixes of the servers that wait for a first request, by name; set by Run
	lazy     atomic.Pointer[map[string]string]
	personal personal
	main     *Gateway // of a view of lists for some callers, see newView; nil otherwise

	// Used by Run only.
	results      bool                    // the template of large results is registered
	servers      []string                // in the order of the configuration
	instructions map[string]instructions // by server; only those that are not empty
	missing      map[string]string       // the servers whose lists are not known, as the instructions name them
	capabilities map[string]mcp.ServerCapabilities
	callers      map[string]bool // the servers with CallerAuth
	tools        registrations[host.Merged[mcp.Tool]]
	prompts      registrations[host.Merged[mcp.Prompt]]
	resources    registrations[mcp.Resource]
	templates    registrations[mcp.ResourceTemplate]
}

// dialled has the functions of a client that only hosts and gateways need.
var dialled = link.Get[link.Client[client.Client, client.CallOption]]()

// upstream, extending, approvals and configs have the functions of a host that only gateways need.
var (
	upstream  = link.Get[link.Host[host.Host, host.ServerStatus, host.Request]]()
	extending = link.Get[link.Extensions[host.Host, client.CallOption]]()
	approvals = link.Get[link.Approval[host.Approval]]()
	configs   = link.Get[link.ServerConfig[host.ServerConfig]]()
)

// downstream has the functions of a server that only gateways need.
var downstream = link.Get[link.Server[server.Server, server.ToolHandler, server.ToolOption]]()

const defaultTimeout = 10 * time.Minute

// maxTemplates bounds the resource templates of one server, because each read of a resource
// may be compared with all of them.
const maxTemplates = 1000

// New returns a Gateway from h to s. From now on s declares the capabilities for tools, resources and prompts, even
// while it has none. The program may register others with s. The error is that h was started before its first Gateway
// was made: from then on, h sends the requests of its servers to the clients of the gateway. New sets s.Personal,
// s.WhileListening and s.PersonalOutdated, and s.RootsChanged if it is nil. It registers the extensions of the servers
// with s; Run updates them.
func New(h *host.Host, s *server.Server) (*Gateway, error) {
	if err := upstream.Forward(h); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	s.DeclareTools()
	s.DeclareResources()
	s.DeclarePrompts()
	g := &Gateway{
		host: h, server: s, registered: newRegistered(),
		instructions: make(map[string]instructions), missing: make(map[string]string),
		capabilities: make(map[string]mcp.ServerCapabilities),
		callers:      make(map[string]bool),
	}
	hooks := downstream.Hooks(s)
	hooks.UnknownSubscription, hooks.Hide = g.admitUnknown, g.hide
	//lint:ignore SA1019 roots are deprecated, but still supported
	if s.RootsChanged == nil {
		//lint:ignore SA1019 as above
		s.RootsChanged = h.NotifyRootsChanged
	}
	s.Personal, s.WhileListening, s.PersonalOutdated = g.offerPersonal, g.watchPersonal, g.outdatePersonal
	g.options = sync.OnceValue(func() requestOptions { // Timeout may be set after New
		timeout := client.WithTimeout(g.timeout())
		return requestOptions{
			tool:      []client.CallOption{timeout, dialled.UndecodedText()},
			content:   []client.CallOption{timeout, client.WithSource()},
			extension: []client.CallOption{timeout},
		}
	})
	g.notAdded = g.addExtensions()
	g.init()
	return g, nil
}

// init sets the functions that register with g.server.
func (g *Gateway) init() {
	s := g.server
	g.tools = registrations[host.Merged[mcp.Tool]]{
		kind: "tool", key: func(t *host.Merged[mcp.Tool]) string { return t.Name },
		register:   g.registerTool,
		unregister: func(name string) { s.RemoveTool(name); g.removeOrigin(mcp.MethodListTools, name) },
	}
	g.prompts = registrations[host.Merged[mcp.Prompt]]{
		kind: "prompt", key: func(p *host.Merged[mcp.Prompt]) string { return p.Name },
		register:   g.registerPrompt,
		unregister: func(name string) { s.RemovePrompt(name); g.removeOrigin(mcp.MethodListPrompts, name) },
	}
	g.resources = registrations[mcp.Resource]{
		kind: "resource", key: func(r *mcp.Resource) string { return r.URI },
		register:   g.registerResource,
		unregister: func(uri string) { s.RemoveResource(uri); g.removeOrigin(mcp.MethodListResources, uri) },
	}
	g.templates = registrations[mcp.ResourceTemplate]{
		kind: "template", most: maxTemplates, key: func(t *mcp.ResourceTemplate) string { return t.URITemplate },
		register:   g.registerTemplate,
		unregister: func(uri string) { s.RemoveTemplate(uri); g.removeOrigin(mcp.MethodListResourceTemplates, uri) },
	}
}

// Run registers what the servers of the host have, and updates it, until ctx ends or
// the host is closed. The host must have been started. Run must be called only once.
func (g *Gateway) Run(ctx context.Context) {
	defer close(g.registered.ended)
	if g.notAdded != nil {
		g.logger().Warn("extensions not forwarded", "error", g.notAdded)
	}
	if g.ListBudget != 0 {
		g.discovery.personal = &server.Server{Logger: g.logger()}
		g.registerDiscovery(g.discovery.personal)
	}
	g.report(g.discover(""))
	following, stop := context.WithCancel(ctx)
	var policy sync.WaitGroup
	policy.Go(func() { g.followPolicy(following) })
	defer policy.Wait()
	defer stop()
	for status := range g.host.Watch(ctx) {
		// A server that is down keeps its lists, in which names may be withheld since.
		// Removed has empty lists
		if status.Revision != "" || status.State == host.CallersOnly || status.State == host.Removed {
			g.update(g.present(), g.Toolset.filter(status))
		}
		g.updateExtensions(status)
		g.updateMissing(status)
		g.updateLazy(status)
		g.registered.set(status)
	}
}

// update makes the registrations for one of the servers match its lists. The order in which the
// servers become ready does not matter for the result.
func (g *Gateway) update(servers []string, status host.ServerStatus) {
	g.order(servers, status.Name)
	g.capabilities[status.Name] = status.Server.Capabilities
	if status.State == host.Removed {
		defer g.forget(status.Name)
	}
	defer g.setCallerServer(g.servers, status)
	if status.Config.CallerAuth != nil { // each caller has lists of its own
		status.Tools, status.Prompts, status.Resources, status.Templates = nil, nil, nil, nil
		g.callers[status.Name] = true
	} else {
		delete(g.callers, status.Name)
	}
	g.prompts.set(g.logger(), status.Name, status.Prompts)
	g.resources.set(g.logger(), status.Name, status.Resources)
	g.templates.set(g.logger(), status.Name, status.Templates)
	g.tools.set(g.logger(), status.Name, status.Tools)
	g.registerResults(status)
	to := newRoutes(g.servers, g.callers, func(name string) offers {
		return offers{g.resources.byServer[name], g.templates.byServer[name]}
	})
	for _, p := range g.prompts.byServer[status.Name] {
		p.want = p.entry.Name
	}
	for _, t := range g.tools.byServer[status.Name] {
		t.want = t.entry.Name
	}
	g.routes.Store(to)
	catalog := g.discover(status.Name)
	g.prompts.apply(g.servers)
	g.resources.apply(g.servers)
	g.templates.apply(g.servers)
	g.referToUIs()
	g.tools.apply(g.servers)
	g.report(catalog)
	g.updateInstructions(status)
}

// forget deletes what remains of a server without registrations.
func (g *Gateway) forget(name string) {
	g.servers = slices.DeleteFunc(g.servers, func(server string) bool { return server == name })
	delete(g.instructions, name)
	delete(g.capabilities, name)
	delete(g.callers, name)
	g.tools.forget(name)
	g.prompts.forget(name)
	g.resources.forget(name)
	g.templates.forget(name)
}

// order sets g.servers to the servers of the host, followed by others that may have registrations, such
// as name.
func (g *Gateway) order(servers []string, name string) {
	for _, other := range append(g.servers, name) {
		if !slices.Contains(servers, other) {
			servers = append(servers, other)
		}
	}
	g.servers = servers
}

// present returns the servers of the host, in their order.
func (g *Gateway) present() (servers []string) {
	for _, status := range g.host.Status() {
		servers = append(servers, status.Name)
	}
	return servers
}

// registerTool registers a tool and returns its name, or "" if it cannot be registered.
func (g *Gateway) registerTool(serverName, name string, t *host.Merged[mcp.Tool]) string {
	logger := g.logger().With("server", serverName, "tool", t.Definition.Name)
	tool := t.Definition
	if g.isDiscovery(name) {
		logger.Warn("tool not registered: the gateway has a tool of this name; rename it, or give its server a prefix",
			"name", name)
		return ""
	}
	tool.Name = name
	tool.Execution = nil
	tool.Meta = rewriteUI(revision.ForwardableMeta(tool.Meta), g.uriOf(serverName))
	options := []server.ToolOption{server.Parked()}
	if g.runsTasks(serverName, &t.Definition) {
		options = append(options, server.AsTask(asTask))
	}
	handler := g.forward(serverName, t.Definition.Name)
	if g.main != nil {
		handler = g.main.afterLogin(serverName, handler)
	}
	if err := downstream.ForwardTool(g.server, tool, handler, options...); err != nil {
		logger.Warn("tool not registered", "error", err)
		return ""
	}
	g.setOrigin(mcp.MethodListTools, name, host.Request{Method: mcp.MethodCallTool, Server: serverName,
		Kind: host.KindTool, Name: t.Definition.Name, Tool: &t.Definition})
	return name
}

// currentRoutes returns the routes to all servers.
func (g *Gateway) currentRoutes() *routes {
	if g.main != nil {
		g = g.main
	}
	return g.routes.Load()
}

func (g *Gateway) logger() *slog.Logger {
	if g.Logger != nil {
		return g.Logger
	}
	return slog.Default()
}

// Toolset selects some of what the servers of a host have. It selects what Servers, Tools or
// Prompts name, without what Hide names. The zero Toolset selects nothing.
//
// In patterns, * matches any number of characters and ? matches one character. Patterns match
// whole names, and letters are case-sensitive.
type Toolset struct {
	// Servers has patterns of the names of servers. All tools, prompts, resources and resource
	// templates of these servers are selected.
	Servers []string
	// Tools and Prompts have patterns of names in the merged lists of the host, such as
	// files__read_*. They select tools and prompts of all servers.
	Tools, Prompts []string
	// Hide has patterns of the names of tools and prompts, in the merged lists of the host, that
	// are not selected.
	Hide []string
}

// mayHave reports whether t may select something of a server whose lists are not known.
func (t *Toolset) mayHave(s *host.ServerStatus) bool {
	if t == nil || glob.Any(t.Servers, s.Name) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(t.Tools, t.Prompts), func(pattern string) bool {
		literal := pattern
		if i := strings.IndexAny(pattern, "*?"); i >= 0 {
			literal = pattern[:i]
		}
		prefix := configs.Prefix(s.Config)
		return strings.HasPrefix(literal, prefix) || literal != pattern && strings.HasPrefix(prefix, literal)
	})
}

// filter returns a status with the lists that t selects. It leaves out the instructions of a server
// that has no selected tool or prompt.
func (t *Toolset) filter(status host.ServerStatus) host.ServerStatus {
	if t == nil {
		return status
	}
	all := glob.Any(t.Servers, status.Name)
	selects := func(patterns []string, name string) bool {
		return (all || glob.Any(patterns, name)) && !glob.Any(t.Hide, name)
	}
	status.Tools = slices.DeleteFunc(slices.Clone(status.Tools),
		func(m host.Merged[mcp.Tool]) bool { return !selects(t.Tools, m.Name) })
	status.Prompts = slices.DeleteFunc(slices.Clone(status.Prompts),
		func(m host.Merged[mcp.Prompt]) bool { return !selects(t.Prompts, m.Name) })
	if !all {
		status.Resources, status.Templates = nil, nil
		if len(status.Tools)+len(status.Prompts) == 0 {
			status.Server.Instructions = ""
		}
	}
	return status
}
