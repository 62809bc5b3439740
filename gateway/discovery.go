package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

// Size describes the tools that a gateway has registered; see [Gateway.OnSize]. It does not include tools of servers
// with CallerAuth, which depend on the caller.
type Size struct {
	Tools  int  // number of tools of all servers
	Bytes  int  // size of their definitions, as JSON
	Listed bool // whether tools/list contains them; if not, clients search for them. See Gateway.ListBudget
}

// The tools with which clients find and call tools that are not listed. If there is a ListBudget, a tool of a server
// without a prefix is not registered under one of these names. Their definitions stay the same while servers change,
// so that models can cache them.
const (
	searchTools  = "search_tools"
	describeTool = "describe_tool"
	callTool     = "call_tool"
)

const (
	defaultFound = 10
	maxSummary   = 200 // bytes of a description in a list of tools
)

// discovery is the state of the tools for discovery.
type discovery struct {
	reported *Size                // size last passed to OnSize by report; used only by Run
	current  atomic.Pointer[Size] // nil before the first call of discover
	once     sync.Once
	catalog  server.Catalog // see discoveryTools
}

// lists reports whether tools/list contains the tools that all callers have.
func (d *discovery) lists() bool {
	now := d.current.Load()
	return now == nil || now.Listed
}

// exceeds reports whether the definitions of all tools are larger than a budget for a caller with some views.
func (d *discovery) exceeds(budget int, views []*callerView) bool {
	now := d.current.Load()
	if budget == 0 || now == nil {
		return false
	}
	bytes := now.Bytes
	for _, v := range views {
		bytes += v.bytes
	}
	return !now.Listed || bytes > budget
}

// discover decides whether tools/list contains the tools of the servers. It runs before the tools are
// registered under their names.
func (g *Gateway) discover() Size {
	var now Size
	for _, tools := range g.shared.tools.byServer {
		size := sizeOf(slices.DeleteFunc(slices.Clone(tools), func(t *registration[host.Tool]) bool {
			return g.isDiscovery(t.want) // such a tool is not registered
		}))
		now.Tools += size.Tools
		now.Bytes += size.Bytes
	}
	now.Listed = g.ListBudget == 0 || g.ListBudget > 0 && now.Bytes <= g.ListBudget
	before := g.discovery.lists()
	if g.discovery.current.Store(&now); now.Listed != before {
		g.server.CatalogsChanged()
	}
	return now
}

// sizeOf returns the number of tools, and the size of their definitions.
func sizeOf(tools []*registration[host.Tool]) Size {
	size := Size{Tools: len(tools)}
	for _, t := range tools {
		size.Bytes += len(t.definition)
	}
	return size
}

// report calls OnSize if the size has changed. It runs after the tools were registered.
func (g *Gateway) report(now Size) {
	if g.OnSize != nil && (g.discovery.reported == nil || *g.discovery.reported != now) {
		g.discovery.reported = &now
		g.OnSize(now)
	}
}

// isDiscovery reports whether a name belongs to a tool for discovery, which may be registered later.
func (g *Gateway) isDiscovery(name string) bool {
	return g.ListBudget != 0 && (name == searchTools || name == describeTool || name == callTool)
}

// discoveryTools returns the catalog with the tools for discovery.
func (g *Gateway) discoveryTools() *server.Catalog {
	g.discovery.once.Do(g.registerDiscovery)
	return &g.discovery.catalog
}

func (g *Gateway) registerDiscovery() {
	c := &g.discovery.catalog
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	for name, err := range map[string]error{
		searchTools: c.RegisterTool(mcp.Tool{
			Name:  searchTools,
			Title: "Search tools",
			Description: "Find tools of the connected servers. The result has their names, the best match first. " +
				"Without a query, it has the tools of one server, or the list of servers.",
			InputSchema: json.RawMessage(searchSchema),
			Annotations: readOnly,
		}, g.search),
		describeTool: c.RegisterTool(mcp.Tool{
			Name:  describeTool,
			Title: "Describe a tool",
			Description: "Return the definition of a tool that " + searchTools + " has found, with the schema of its " +
				"arguments. Use it before " + callTool + ".",
			InputSchema: json.RawMessage(describeSchema),
			Annotations: readOnly,
		}, g.describe),
		callTool: c.RegisterTool(mcp.Tool{
			Name:  callTool,
			Title: "Call a tool",
			Description: "Call a tool that " + searchTools + " has found. The arguments must match the schema that " +
				describeTool + " returns.",
			InputSchema: json.RawMessage(callSchema),
		}, g.call, server.Parked(), server.AsTask(asTask)),
	} {
		if err != nil {
			g.logger().Warn("cannot add a tool for discovery", "tool", name, "error", err)
		}
	}
}

const (
	searchSchema = `{"type":"object","properties":{` +
		`"query":{"type":"string","maxLength":1000,"description":"words that describe what the tool does"},` +
		`"server":{"type":"string","description":"search the tools of this server only"},` +
		`"detail":{"enum":["name","summary","definition"],"default":"summary","description":"how much of each tool ` +
		`to return"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"default":10,"description":"maximum number of tools"},` +
		`"offset":{"type":"integer","minimum":0,"default":0,"description":"number of tools to leave out at the ` +
		`beginning"}` +
		`},"additionalProperties":false}`
	describeSchema = `{"type":"object","properties":{` +
		`"name":{"type":"string","description":"name of the tool"}},"required":["name"],"additionalProperties":false}`
	callSchema = `{"type":"object","properties":{` +
		`"name":{"type":"string","description":"name of the tool"},` +
		`"arguments":{"type":"object","description":"arguments of the tool"}},"required":["name"],` +
		`"additionalProperties":false}`
)

// searchArguments contains the arguments of search_tools.
type searchArguments struct {
	Query  string `json:"query"`
	Server string `json:"server"`
	Detail string `json:"detail"`
	Limit  int    `json:"limit"`
	Offset int    `json:"offset"`
}

// foundTools is the result of search_tools.
type foundTools struct {
	Version string        `json:"version"`           // a digest of all tools that the caller can find
	Total   int           `json:"total"`             // number of tools that match
	Tools   []any         `json:"tools,omitzero"`    // strings, summaries or definitions
	Servers []foundServer `json:"servers,omitempty"` // the servers of the host, if there is no query
}

type toolSummary struct {
	Name        string `json:"name"`
	Server      string `json:"server"`
	Description string `json:"description,omitempty"`
}

type foundServer struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Tools       int    `json:"tools"`
}

// search serves search_tools.
func (g *Gateway) search(ctx context.Context, raw json.RawMessage) (*mcp.CallToolResult, error) {
	g.startLazy(ctx, call.From(ctx))
	arguments := searchArguments{Limit: defaultFound}
	if err := schema.Decode(raw, &arguments); err != nil {
		return nil, err
	}
	visible := g.find(ctx, arguments.Query, arguments.Server)
	found := foundTools{Version: g.host.ToolsVersion(g.withCaller(ctx))}
	found.Total = len(visible)
	if arguments.Query == "" && arguments.Server == "" {
		found.Servers = g.foundServers(visible)
		return textOf(found)
	}
	if arguments.Server != "" && found.Total == 0 && len(g.find(ctx, "", arguments.Server)) == 0 {
		return nil, fmt.Errorf("server %.64q has no tools; call %s without arguments for the list of servers",
			arguments.Server, searchTools)
	}
	from := min(arguments.Offset, len(visible))
	found.Tools = []any{} // encode as [], not null
	for _, t := range visible[from:min(from+arguments.Limit, len(visible))] {
		switch arguments.Detail {
		case "name":
			found.Tools = append(found.Tools, t.definition.Name)
		case "definition":
			found.Tools = append(found.Tools, t.definition)
		default:
			summary := summaryOf(t.definition.Description)
			found.Tools = append(found.Tools, toolSummary{t.definition.Name, t.server, summary})
		}
	}
	return textOf(found)
}

// visibleTool is a tool that callers can see.
type visibleTool struct {
	server     string
	request    *host.Request // the request that the policy may hide
	definition *mcp.Tool     // definition at the gateway; immutable
}

// lookup returns a function that finds the tools of servers that the caller of ctx can see. It requests the lists of
// the caller.
func (g *Gateway) lookup(ctx context.Context) func(name string) (visibleTool, bool) {
	tools, hides := []*sync.Map{&g.shared.visible}, g.host.Hides(server.PrincipalOf(ctx))
	views, _ := g.callerViews(ctx)
	for _, v := range views {
		if v.tools != nil {
			tools = append(tools, v.tools)
		}
	}
	return func(name string) (found visibleTool, ok bool) {
		for _, of := range tools {
			if t, ok := of.Load(name); ok {
				found := *t.(*visibleTool)
				return found, hides == nil || !hides(found.request)
			}
		}
		return visibleTool{}, false
	}
}

// find returns the tools of one server or all servers that the caller can see and that match a query, best first.
func (g *Gateway) find(ctx context.Context, query, serverName string) (visible []visibleTool) {
	lookup := g.lookup(ctx) // first: the search uses the lists of the caller
	for _, t := range g.host.Search(g.withCaller(ctx), query, 0) {
		if serverName != "" && t.Server != serverName {
			continue
		}
		if found, ok := lookup(t.Name); ok && found.server == t.Server {
			visible = append(visible, found)
		}
	}
	return visible
}

// foundServers returns the servers that have tools, in order.
func (g *Gateway) foundServers(visible []visibleTool) (servers []foundServer) {
	count := make(map[string]int)
	for _, t := range visible {
		count[t.server]++
	}
	for _, status := range g.host.Status() {
		if n := count[status.Name]; n > 0 {
			info := status.Server.Info
			servers = append(servers, foundServer{status.Name, info.Title, summaryOf(info.Description), n})
		}
	}
	return servers
}

// summaryOf returns the beginning of the first line of a description.
func summaryOf(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	if len(line) > maxSummary {
		line = strings.ToValidUTF8(line[:maxSummary], "") + "…"
	}
	return strings.TrimSpace(line)
}

// describe serves describe_tool.
func (g *Gateway) describe(ctx context.Context, raw json.RawMessage) (*mcp.CallToolResult, error) {
	name, _ := jsonrpc.Get(raw, "name")
	found, ok := g.lookup(ctx)(jsonrpc.Unquote(name))
	if !ok {
		return nil, g.unknownTool(ctx, jsonrpc.Unquote(name))
	}
	return textOf(found.definition)
}

// call serves call_tool.
func (g *Gateway) call(ctx context.Context, raw json.RawMessage) (*mcp.CallToolResult, error) {
	name, _ := jsonrpc.Get(raw, "name")
	arguments, _ := jsonrpc.Get(raw, "arguments")
	return g.server.CallTool(ctx, jsonrpc.Unquote(name), arguments)
}

// unknownTool returns the error for a name, with the names of similar tools.
func (g *Gateway) unknownTool(ctx context.Context, name string) error {
	text := fmt.Sprintf("unknown tool: %.128q", name)
	similar := g.find(ctx, name[:min(len(name), 128)], "")
	for i, t := range similar[:min(len(similar), 3)] {
		text += []string{"; did you mean ", ", ", ", "}[i] + t.definition.Name
	}
	return errors.New(text + "; " + searchTools + " finds the names of tools")
}

// textOf returns a result with the JSON of a value as text: models read it, and it needs no output schema.
func textOf(value any) (*mcp.CallToolResult, error) {
	text, err := schema.Marshal(value)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(text))}}, nil
}
