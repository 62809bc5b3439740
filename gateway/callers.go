package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

const (
	// callerListAge is how long the lists of a caller are used before a request for a list requests them again.
	callerListAge = time.Minute
	maxViews      = 1024 // different lists, across all servers and callers
	maxShown      = 8192 // pairs of a caller and a server
)

// callers contains what a Gateway knows about servers with CallerAuth, whose lists depend on the caller.
type callers struct {
	servers atomic.Pointer[[]callerServer] // in order; set by Run

	filter   *server.ListFilter // filter of the lists of all views
	failures loglimit.Limiter   // limits log lines about lists that cannot be requested

	mu    sync.Mutex
	views map[viewKey]*callerView
	shown map[shownKey]uint64 // version of the lists that a caller saw last; 0 without a login
}

// all returns the servers with CallerAuth.
func (p *callers) all() []callerServer {
	if servers := p.servers.Load(); servers != nil {
		return *servers
	}
	return nil
}

// callerServer is a server with CallerAuth.
type callerServer struct {
	status host.ServerStatus // contains the operator's lists
	view   *callerView       // view of these lists
	login  *callerView       // view with the tool to log in
}

// callerView is a catalog for some callers. It is immutable.
type callerView struct {
	catalog *server.Catalog
	tools   *sync.Map // see view.visible; nil for a tool to log in
	bytes   int       // size of the definitions of the tools that need not be listed; see Gateway.ListBudget
}

// viewKey identifies lists. Names that other servers claim, too, are left out, which does not change the version.
type viewKey struct {
	version        uint64
	tools, prompts int
}

type shownKey struct {
	caller         principal.Principal
	scopes, server string
}

// catalogsOf implements server.Server.Catalogs.
func (g *Gateway) catalogsOf(ctx context.Context) ([]*server.Catalog, error) {
	views, err := g.callerViews(ctx)
	if err != nil {
		return nil, err
	}
	return g.withinBudget(call.From(ctx), views), nil
}

// callerViews returns what servers with CallerAuth offer to the caller of ctx. Here, lists and calls wait for the lists
// of these servers; other requests do not need them.
func (g *Gateway) callerViews(ctx context.Context) ([]*callerView, error) {
	c := call.From(ctx)
	g.startLazy(ctx, c)
	if err := g.notListed(c); err != nil {
		return nil, err
	}
	servers := g.callers.all()
	listing := c != nil && isList(c.Method())
	views := make([][]*callerView, len(servers))
	var waiting sync.WaitGroup
	for i := range servers {
		if s := &servers[i]; g.isNeeded(c, s) {
			waiting.Go(func() { views[i] = g.viewsOf(ctx, s, listing) })
		}
	}
	waiting.Wait()
	return slices.Concat(views...), nil
}

// withinBudget returns the catalogs of views. For a list of tools, it returns the tools for discovery instead if the
// definitions of all tools are larger than ListBudget.
func (g *Gateway) withinBudget(c *call.Call, views []*callerView) (catalogs []*server.Catalog) {
	listing := c != nil && c.Method() == mcp.MethodListTools
	search := g.ListBudget != 0
	if listing {
		search = g.discovery.exceeds(g.ListBudget, views)
	}
	for _, v := range views {
		if !listing || !search || v.bytes == 0 {
			catalogs = append(catalogs, v.catalog)
		}
	}
	if search {
		catalogs = append(catalogs, g.discoveryTools())
	}
	return catalogs
}

func isList(method string) bool {
	switch method {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListResourceTemplates:
		return true
	}
	return false
}

// isNeeded reports whether a request may be about an entry of a server.
func (g *Gateway) isNeeded(c *call.Call, s *callerServer) bool {
	if c == nil {
		return true
	}
	switch c.Method() {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		return strings.HasPrefix(c.Name(), s.status.Config.NamePrefix()) || g.isDiscovery(c.Name())
	case mcp.MethodReadResource, mcp.MethodSubscribe:
		return hasPrefixOf(s.status.Name, c.Name())
	}
	return true
}

// viewsOf returns what a server offers to the caller of ctx: the caller's own lists or, without a login, the
// operator's lists and a tool to log in. That tool can still be called after the login, when it is no longer listed.
func (g *Gateway) viewsOf(ctx context.Context, s *callerServer, listing bool) []*callerView {
	maxAge := time.Duration(math.MaxInt64)
	if listing {
		maxAge = callerListAge
	}
	status, err := g.host.Client(s.status.Name).Status(g.withCaller(ctx), maxAge)
	switch {
	case err == nil:
		if g.show(ctx, s.status.Name, status.Version, listing); listing {
			return []*callerView{g.viewOf(status)}
		}
		return []*callerView{g.viewOf(status), s.login}
	case errors.As(err, new(*call.URLRequiredError)):
		g.show(ctx, s.status.Name, 0, true)
		return []*callerView{s.view, s.login}
	case !errors.Is(err, host.ErrAnonymousCaller):
		g.callers.failures.Log(ctx, g.logger(), slog.LevelWarn,
			"cannot list what a server offers to a caller: using the operator's lists",
			slog.String("server", s.status.Name), slog.Any("error", err))
	}
	return []*callerView{s.view}
}

// show records which lists a caller sees, and notifies the caller's clients if it saw others before. If the request is
// not for a list, only a login since then changes what the caller sees.
func (g *Gateway) show(ctx context.Context, serverName string, version uint64, listing bool) {
	key := shownKey{caller: server.PrincipalOf(ctx), server: serverName}
	if info := auth.FromContext(ctx); info != nil {
		key.scopes = strings.Join(slices.Sorted(slices.Values(info.Scopes)), " ")
	} else if call.From(ctx) == nil {
		return // a subscription has no token
	}
	p := &g.callers
	p.mu.Lock()
	before, known := p.shown[key]
	if !listing && (!known || before != 0) {
		p.mu.Unlock()
		return
	}
	if p.shown == nil {
		p.shown = make(map[shownKey]uint64)
	}
	if !known && len(p.shown) >= maxShown {
		for other := range p.shown {
			delete(p.shown, other)
			break
		}
	}
	p.shown[key] = version
	p.mu.Unlock()
	if known && before != version {
		g.server.CatalogsChanged(key.caller)
	}
}

// viewOf returns a catalog with the lists of a status. Callers with the same lists share it.
func (g *Gateway) viewOf(status host.ServerStatus) *callerView {
	status = g.Toolset.filter(status)
	key := viewKey{status.Version, len(status.Tools), len(status.Prompts)}
	p := &g.callers
	p.mu.Lock()
	known := p.views[key]
	p.mu.Unlock()
	if known != nil {
		return known
	}
	view := g.newCallerView(status, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.views == nil {
		p.views = make(map[viewKey]*callerView)
	}
	if len(p.views) >= maxViews {
		for other := range p.views {
			delete(p.views, other)
			break
		}
	}
	p.views[key] = view
	return view
}

// newCallerView returns a catalog with the lists of one status: the lists of some callers or, for callers without a
// login, the operator's lists.
func (g *Gateway) newCallerView(status host.ServerStatus, withoutLogin bool) *callerView {
	v := g.newView(new(server.Catalog), g.callers.filter)
	v.ofCallers, v.withoutLogin = true, withoutLogin
	v.set(&status)
	v.apply([]string{status.Name})
	return &callerView{v.catalog, &v.visible, sizeOf(v.tools.byServer[status.Name]).Bytes}
}

// setCallerServer updates or adds a server with CallerAuth, or removes a server that has none.
func (g *Gateway) setCallerServer(order []string, status host.ServerStatus) {
	before, now := g.callers.all(), []callerServer(nil)
	i := slices.IndexFunc(before, func(s callerServer) bool { return s.status.Name == status.Name })
	isPresent := status.Config.CallerAuth != nil && status.State != host.Removed
	if i < 0 && !isPresent {
		return
	}
	for j := range before {
		if j != i {
			now = append(now, before[j])
		}
	}
	same := i >= 0 && isPresent && sameLists(&before[i].status, &status)
	switch {
	case same:
		now = append(now, callerServer{status, before[i].view, before[i].login})
	case isPresent:
		now = append(now, callerServer{status, g.newCallerView(status, true), g.newLogin(status)})
	}
	slices.SortStableFunc(now, func(a, b callerServer) int {
		return slices.Index(order, a.status.Name) - slices.Index(order, b.status.Name)
	})
	g.callers.servers.Store(&now)
	if !same {
		g.server.CatalogsChanged()
	}
}

func sameLists(a, b *host.ServerStatus) bool {
	return a.Config.NamePrefix() == b.Config.NamePrefix() &&
		reflect.DeepEqual(a.Server.Capabilities, b.Server.Capabilities) &&
		reflect.DeepEqual(a.Tools, b.Tools) &&
		reflect.DeepEqual(a.Prompts, b.Prompts) && reflect.DeepEqual(a.Resources, b.Resources) &&
		reflect.DeepEqual(a.Templates, b.Templates)
}

// loginTool is the name of the tool with which a caller logs in to a server, after the prefix of the server.
const loginTool = "login"

// newLogin returns a catalog with the tool to log in to the server of a status.
func (g *Gateway) newLogin(status host.ServerStatus) *callerView {
	login := &callerView{catalog: new(server.Catalog)}
	if !g.Toolset.mayHave(&status) {
		return login
	}
	prefix := status.Config.NamePrefix()
	if prefix == "" {
		prefix = status.Name + "__"
	}
	name := status.Name
	err := login.catalog.RegisterTool(mcp.Tool{
		Name: prefix + loginTool, Title: "Log in to " + name,
		Description: "Log the user in to the server " + name +
			", which has more tools, prompts or resources after a login. The user opens a web page for it.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}, func(ctx context.Context, _ json.RawMessage) (*mcp.CallToolResult, error) {
		now, err := g.host.Client(name).Status(g.withCaller(ctx), 0)
		if err != nil {
			return nil, g.toolError(ctx, name, err)
		}
		g.show(ctx, name, now.Version, true)
		text := fmt.Sprintf("The user is logged in to the server %s. The lists of tools, prompts and resources have "+
			"what it offers to the user: %d tools.", name, len(now.Tools))
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}, nil
	}, server.Parked())
	if err != nil {
		g.logger().Warn("cannot add the tool for logging in", "server", name, "error", err)
	}
	return login
}

// afterLogin calls a tool for a caller without a login. If the call succeeds, the caller has logged in since.
func (g *Gateway) afterLogin(forward toolHandler) toolHandler {
	return func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		result, err := forward(ctx, arguments)
		if err == nil {
			g.server.CatalogsChanged(server.PrincipalOf(ctx))
		}
		return result, err
	}
}
