package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/server"
)

// Gateway registers the tools, prompts and resources of a host's servers with one
// server and updates them when they change. Set the fields before Run and do not change
// them afterwards.
type Gateway struct {
	// Timeout limits how long a request to a server may take without progress. Each progress notification starts it
	// again. 0 means 10 minutes, which is longer than the usual time-outs of clients, so that they end a request first.
	Timeout time.Duration

	// ListBudget limits the total size of the tool definitions in tools/list, in bytes of JSON; a token of a model is
	// about four bytes. Beyond it, the list contains three tools instead: search_tools finds tools, describe_tool
	// returns the definition of one, and call_tool calls it. All tools can still be called by name. 0 means no limit,
	// and a negative number means that clients always search. Tools that a caller has from servers with CallerAuth
	// count for this caller, who searches for them if the total exceeds the limit.
	ListBudget int

	// OnSize, if set, is called by Run when the number or the size of the registered tools has changed.
	OnSize func(Size)

	// Toolset, if set, selects what the gateway registers. Several gateways, each with its own server, can serve
	// different toolsets of one host.
	Toolset *Toolset

	// LocalUser, if set, reports whether a request without authentication comes from the user of this machine, because
	// the server accepts nobody else. Servers whose questions do not name a call may ask this user.
	LocalUser func(ctx context.Context) bool

	// Logger receives a warning for each tool, prompt, resource or template that the
	// gateway cannot register, or registers under another name. Nil means
	// slog.Default().
	Logger *slog.Logger

	host   *host.Host
	server *server.Server
	routes atomic.Pointer[routes]

	firstUnknown atomic.Pointer[time.Time] // see awaitStart

	options  func() requestOptions
	notAdded error // error of the extensions that New could not register; may be nil

	extensions extensions
	skills     atomic.Pointer[[]skillServer] // ordered by name; set by Run
	withheld   withheldSkills
	discovery  discovery
	registered *registered
	lazy       atomic.Pointer[map[string]unlisted] // see updateLazy
	callers    callers
	tooLong    loglimit.Limiter // limits log lines about instructions

	// Used by Run only.
	shared   *view           // what all callers see; searches use its field visible
	results  bool            // whether the template of large results is registered
	servers  []string        // in the order of configuration
	prefixed map[string]bool // the servers with CallerAuth
}

const defaultTimeout = 10 * time.Minute

// New returns a Gateway that serves the servers of h with s. It adds what all callers can use to s, and sets s.Catalogs
// for what single callers get from servers with CallerAuth; the program may add its own tools and resources to s. It
// also sets other functions of s, such as s.InstructionsFor and s.Headers. From now on, s declares the capabilities for
// tools, resources and prompts, even while there are none. New registers the extensions of the servers; Run updates
// them.
//
// New returns an error if s.Catalogs is set, for example by another Gateway, or if h was started before its first
// Gateway was made: from then on, h sends its servers' requests to the clients of the gateway. The Store of the first
// server keeps the large results of tools, encrypted with its Keys; see host.ServerConfig.MaxResult.
func New(h *host.Host, s *server.Server) (*Gateway, error) {
	if s.Catalogs != nil {
		return nil, errors.New("gateway: Server.Catalogs must be nil")
	}
	switch {
	case h.Callers: // used for another gateway
	case h.Started():
		return nil, errors.New("gateway: the host must not be started before its first gateway is made")
	default:
		h.Callers = true
		if h.Store == nil && s.Store != nil {
			h.Store, h.Keys = s.Store, s.Keys
		}
	}
	g := &Gateway{
		host: h, server: s, registered: newRegistered(), prefixed: make(map[string]bool),
	}
	g.callers.filter = &server.ListFilter{Hides: g.hideDenied}
	g.shared = g.newView(&s.Catalog, &server.ListFilter{Hides: g.hide})
	g.routes.Store(new(routes))
	g.skills.Store(new([]skillServer))
	s.Catalogs, s.CatalogsOutdated, s.WhileListening = g.catalogsOf, h.Outdate, g.watchCaller
	s.InstructionsFor, s.Headers = g.instructions, h.CallerHeaders
	s.RootsChanged = func(ctx context.Context) { h.NotifyRootsChanged(g.withCaller(ctx)) }
	s.BeforeSubscribe = func(context.Context, string) error {
		if h.Policy != nil { // the policy decides on what servers list
			return call.ErrResourceNotFound
		}
		return nil
	}
	g.options = sync.OnceValue(func() requestOptions { // Timeout may be set after New
		timeout := client.WithTimeout(g.timeout())
		return requestOptions{
			tool:      []client.CallOption{timeout, client.WithUndecodedText()},
			content:   []client.CallOption{timeout, client.WithSource()},
			extension: []client.CallOption{timeout},
		}
	})
	g.notAdded = g.addExtensions()
	return g, nil
}

// Serve starts the host, calls serve, and closes the host when serve has returned:
//
//	err := g.Serve(ctx, s.Run) // or s.ListenAndServe, with an address
//
// Meanwhile it registers what the servers offer, as [Gateway.Run] does. serve receives ctx. Serve returns the error of
// [host.Host.Start] or of serve, and logs a warning if a server could not be closed.
func (g *Gateway) Serve(ctx context.Context, serve func(context.Context) error) error {
	if err := g.host.Start(); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var updates sync.WaitGroup
	updates.Go(func() { g.Run(running) })
	err := serve(ctx)
	stop()
	updates.Wait()
	if err := g.host.Close(); err != nil {
		g.logger().Warn("cannot close servers", "error", err)
	}
	return err
}

// Run registers what the servers of the host offer, and keeps it up to date, until ctx ends or the host is closed. It
// is for programs that start and close the host themselves: the host must have been started. Run must be called only
// once.
func (g *Gateway) Run(ctx context.Context) {
	defer close(g.registered.ended)
	if g.notAdded != nil {
		g.logger().Warn("cannot forward extensions", "error", g.notAdded)
	}
	g.report(g.discover())
	following, stop := context.WithCancel(ctx)
	var policy sync.WaitGroup
	policy.Go(func() { g.followPolicy(following) })
	defer policy.Wait()
	defer stop()
	for status := range g.host.Watch(ctx) {
		// A server that is down keeps its lists, but names in them may have been
		// withheld since. A removed server has empty lists
		if status.Revision != "" || status.State == host.CallersOnly || status.State == host.Removed {
			g.update(g.present(), g.Toolset.filter(status))
		}
		g.updateExtensions(status)
		g.updateSkills(status)
		g.updateLazy(status)
		g.registered.set(status)
	}
}

// update makes the registrations for one of the servers match its lists. The result does not
// depend on the order in which the servers become ready.
func (g *Gateway) update(servers []string, status host.ServerStatus) {
	g.order(servers, status.Name)
	if status.State == host.Removed {
		defer g.forget(status.Name)
	}
	defer g.setCallerServer(g.servers, status)
	if status.Config.CallerAuth != nil { // each caller sees separate lists
		status.Tools, status.Prompts, status.Resources, status.Templates = nil, nil, nil, nil
		g.prefixed[status.Name] = true
	} else {
		delete(g.prefixed, status.Name)
	}
	g.shared.set(&status)
	g.registerResults(status)
	g.routes.Store(newRoutes(g.servers, g.prefixed, func(name string) offers {
		return offers{g.shared.resources.byServer[name], g.shared.templates.byServer[name]}
	}))
	tools := g.discover()
	g.shared.apply(g.servers)
	g.report(tools)
}

// forget deletes what remains of a server without registrations.
func (g *Gateway) forget(name string) {
	g.servers = slices.DeleteFunc(g.servers, func(server string) bool { return server == name })
	delete(g.prefixed, name)
	g.shared.forget(name)
}

// order sets g.servers to the servers of the host, followed by other servers that may have
// registrations, such as name.
func (g *Gateway) order(servers []string, name string) {
	for _, other := range append(g.servers, name) {
		if !slices.Contains(servers, other) {
			servers = append(servers, other)
		}
	}
	g.servers = servers
}

// present returns the servers of the host, in order.
func (g *Gateway) present() (servers []string) {
	for _, status := range g.host.Status() {
		servers = append(servers, status.Name)
	}
	return servers
}

func (g *Gateway) logger() *slog.Logger {
	if g.Logger != nil {
		return g.Logger
	}
	return slog.Default()
}

// Toolset selects some tools, prompts and resources of a host: what Servers, Tools or Prompts name, except what Hide
// names. The zero Toolset selects nothing.
//
// In patterns, * matches any number of characters and ? matches one character. Patterns match
// whole names, and letters are case-sensitive.
type Toolset struct {
	// Servers contains patterns of server names. All tools, prompts, resources and resource templates of these servers
	// are selected.
	Servers []string
	// Tools and Prompts contain patterns of names in the merged lists of the host, such as files__read_*. They select
	// from all servers.
	Tools, Prompts []string
	// Hide contains patterns of names of tools and prompts, in the merged lists of the host, that are not selected.
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
		prefix := s.Config.NamePrefix()
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
		func(m host.Tool) bool { return !selects(t.Tools, m.Name) })
	status.Prompts = slices.DeleteFunc(slices.Clone(status.Prompts),
		func(m host.Prompt) bool { return !selects(t.Prompts, m.Name) })
	if !all {
		status.Resources, status.Templates = nil, nil
		if len(status.Tools)+len(status.Prompts) == 0 {
			status.Server.Instructions = ""
		}
	}
	return status
}
