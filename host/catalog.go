package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// catalog is the tools of one server at one time, with an index of them. It is immutable.
type catalog struct {
	listed []Tool
	tools  []Tool // the tools of listed that a model may see
	index  *index
	digest [sha256.Size]byte // digest of the names and definitions, in order
}

// catalogs are the catalogs of a Host's servers, in order. Each tool is a document; documents are numbered across
// all catalogs.
type catalogs []*catalog

// catalogs returns the catalogs for the caller of ctx. It makes a new catalog for a server whose list has
// changed.
func (h *Host) catalogs(ctx context.Context) (all catalogs) {
	h.cataloging.Lock() // so that concurrent searches make each catalog once
	defer h.cataloging.Unlock()
	for _, l := range h.toolLists(ctx) {
		all = append(all, l.current())
	}
	return all
}

// toolList is the list of the tools of one server at one moment.
type toolList struct {
	tools  []Tool
	last   **catalog // guarded by Host.cataloging
	byName bool      // lists with the same names count as the same
}

// toolLists returns the lists of the servers for the caller of ctx at one moment, as far as known.
func (h *Host) toolLists(ctx context.Context) (lists []toolList) {
	h.names.mu.RLock()
	defer h.names.mu.RUnlock()
	for _, s := range h.all() {
		if s.config.CallerAuth != nil {
			if o := s.pool.known(ctx).offer; o != nil {
				tools, _ := withoutClaimed(s, h.names.tools, "tool", o.offered.tools, nameOfTool)
				lists = append(lists, toolList{tools, &o.catalog, true})
				continue
			}
		}
		lists = append(lists, toolList{tools: s.snapshot().Tools, last: &s.catalog})
	}
	return lists
}

// current returns the catalog of a list. Host.cataloging must be locked.
func (l *toolList) current() *catalog {
	if *l.last == nil || !l.isOf(*l.last) {
		*l.last = newCatalog(l.tools)
	}
	return *l.last
}

// isOf reports whether a catalog was made from l. A list of a server is never modified, only replaced.
func (l *toolList) isOf(c *catalog) bool {
	switch {
	case len(l.tools) != len(c.listed):
		return false
	case len(l.tools) == 0 || &l.tools[0] == &c.listed[0]:
		return true
	}
	return l.byName && slices.EqualFunc(l.tools, c.listed, func(a, b Tool) bool { return a.Name == b.Name })
}

func nameOfTool(t *Tool) string { return t.Name }

func newCatalog(listed []Tool) *catalog {
	tools := forModel(listed)
	c := &catalog{listed: listed, tools: tools}
	documents := make([][]field, len(tools))
	digest := sha256.New()
	for i := range tools {
		t := &tools[i]
		documents[i] = documentOf(t)
		// The definition is valid JSON, so the names of two tools cannot run into each other.
		definition, _ := json.Marshal(&t.Definition)
		digest.Write([]byte(t.Name))
		digest.Write(definition)
	}
	c.index = newIndex(documents)
	digest.Sum(c.digest[:0])
	return c
}

// document returns the tool with a number.
func (cs catalogs) document(number int) *Tool {
	for _, c := range cs {
		if number < len(c.tools) {
			return &c.tools[number]
		}
		number -= len(c.tools)
	}
	return nil
}

// size returns the number of tools.
func (cs catalogs) size() (n int) {
	for _, c := range cs {
		n += len(c.tools)
	}
	return n
}

// documentOf returns the parts of a tool that a search compares with a query. The name matters most.
func documentOf(t *Tool) []field {
	d := &t.Definition
	fields := []field{{t.Server, 1}, {d.Name, 3}, {d.Title, 2}, {d.Description, 1}}
	if d.Annotations != nil && d.Title == "" {
		fields = append(fields, field{d.Annotations.Title, 2})
	}
	for name := range jsonrpc.All(objectIn(d.InputSchema, "properties")) {
		fields = append(fields, field{name, 1})
	}
	return fields
}

// objectIn returns the value of a key if both the object and the value are JSON objects, and otherwise an
// empty object.
func objectIn(object json.RawMessage, name string) json.RawMessage {
	if len(object) > 0 && object[0] == '{' {
		if value, ok := jsonrpc.Get(object, name); ok && value[0] == '{' {
			return value
		}
	}
	return json.RawMessage("{}")
}

// nameTable contains the merged names of all servers. It withholds names that several servers claim, so that a name
// never means the tool of one server now and of another server later. Names that begin with the name of another server
// have been withheld before; see reservedFor.
//
// Lock its mutex before the mutex of a supervisor, only while lists change, and never during I/O.
type nameTable struct {
	mu      sync.RWMutex
	tools   claims
	prompts claims
}

// claims maps merged names to the servers that claim them.
type claims map[string][]claim

// claim records that a server offers a tool or prompt under a merged name.
type claim struct {
	supervisor *supervisor
	listed     string // the name that the server uses
}

// replace replaces the claims of a server, and adds to affected the servers whose names may
// become withheld or free.
func (c claims) replace(s *supervisor, before, now map[string]string, affected map[*supervisor]bool) {
	changed := func(name string, claimants []claim) {
		if len(claimants) == 0 {
			delete(c, name)
			return
		}
		c[name] = claimants
		for _, other := range claimants {
			if other.supervisor != s {
				affected[other.supervisor] = true
			}
		}
	}
	for name := range before {
		if _, remains := now[name]; !remains {
			changed(name, slices.DeleteFunc(slices.Clone(c[name]), func(c claim) bool { return c.supervisor == s }))
		}
	}
	for name, listed := range now {
		claimants := slices.DeleteFunc(slices.Clone(c[name]), func(c claim) bool { return c.supervisor == s })
		claimants = append(claimants, claim{s, listed})
		if _, had := before[name]; had {
			c[name] = claimants
			continue
		}
		changed(name, claimants)
	}
}

// conflict returns the error for a name that several servers claim.
func (c claims) conflict(kind, name string) error {
	var servers []string
	for _, claimant := range c[name] {
		servers = append(servers, claimant.supervisor.name)
	}
	slices.Sort(servers)
	return fmt.Errorf("%s %s is withheld: several servers offer it, %q", kind, name, servers)
}

// tool returns the server that has a tool with a merged name, and the name that the server uses.
// If there is none, s and err are nil.
func (c *nameTable) tool(name string) (s *supervisor, listed string, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	claimants := c.tools[name]
	switch len(claimants) {
	case 0:
		return nil, "", nil
	case 1:
		return claimants[0].supervisor, claimants[0].listed, nil
	}
	return nil, "", fmt.Errorf("%w: %w", unknown("tool", name), c.tools.conflict("tool", name))
}

// resolve returns the server of a tool with a merged name, and the name that the server uses. It
// waits for servers whose lists are not known yet if the name may be in them.
func (h *Host) resolve(ctx context.Context, name string) (server, tool string, err error) {
	for {
		servers := h.roster.Load()
		if servers == nil {
			return "", "", errClosed
		}
		possible, down := h.awaitName(ctx, name)
		s, tool, err := h.names.tool(name)
		if s == nil && err == nil {
			if server, tool, ok := callerTool(ctx, possible, name); ok {
				return server, tool, nil
			}
		}
		switch {
		case err != nil:
			return "", "", err
		case s != nil:
			return s.name, tool, nil
		case servers != h.roster.Load(): // SetServers has replaced servers that may use the name
			continue
		case down != nil:
			return "", "", down
		case len(possible) == 0:
			return "", "", fmt.Errorf("host: %w server: no server has tools with names such as %.200q", ErrUnknown,
				name)
		}
		for _, s := range possible {
			if err := s.withheldNamed(name); err != nil {
				return "", "", fmt.Errorf("%w: %w", unknown("tool", name), err)
			}
		}
		return "", "", unknown("tool", name)
	}
}

// awaitName returns the servers that may have a tool with a merged name. It waits for the servers whose
// lists are not known yet, until one of them has the name, and returns the first error.
func (h *Host) awaitName(ctx context.Context, name string) (possible []*supervisor, err error) {
	for _, s := range h.all() {
		if !s.mayHave(name) {
			continue
		}
		possible = append(possible, s)
		if s.current() != nil {
			continue
		}
		if found, _, conflict := h.names.tool(name); found != nil || conflict != nil {
			return possible, nil
		}
		if _, down := s.await(ctx); down != nil && err == nil {
			err = down
		}
	}
	return possible, err
}

// Tool is a tool of a server, under a name that is unique in the [Host]. Tools that would have the same name are
// withheld, and [ServerStatus.Incomplete] reports them.
type Tool struct {
	// Name is the name in the merged list: the name of the server, two underscores and the name of the tool.
	// [ServerConfig] can set another prefix and another name. Characters other than ASCII letters, digits, hyphens,
	// underscores and dots are replaced by underscores. If two tools of one server would then have the same name, such
	// as 検索 and 削除, a digest of the whole name is added where characters were replaced. A name that is longer than
	// [Host.MaxName] ends with such a digest. The name depends on nothing else.
	Name string
	// Server is the name of the server in Host.Servers.
	Server string
	// Definition is the tool as the server lists it, with the server's own name for it.
	Definition mcp.Tool
}

// Prompt is a prompt of a server, under a name that is unique in the [Host]; see [Tool]. The name may have any length
// and contain any characters.
type Prompt struct {
	Name       string
	Server     string
	Definition mcp.Prompt
}

// Tools returns the tools of all servers in one list, in the order of the servers and of each server's own list. It
// includes the tools of servers that were ready and are down now: a call starts those servers again. The caller owns
// the slice. It must not modify the definitions. For a server with [ServerConfig.CallerAuth], the list contains the
// tools that it lists without a caller's credentials. Tools that Policy denies are included. Tools that only pages of
// their server may call (MCP Apps) are not: they are in [ServerStatus].Tools, and [Client.CallTool] calls them.
func (h *Host) Tools() (all []Tool) {
	for _, l := range h.toolLists(context.Background()) {
		all = append(all, forModel(l.tools)...)
	}
	return all
}

// forModel returns the tools that a model may see. A host must not offer a model the others (MCP Apps
// 2026-01-26, Visibility).
func forModel(tools []Tool) []Tool {
	if !slices.ContainsFunc(tools, isForPages) {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), isForPages)
}

// isForPages reports whether only pages may call a tool.
func isForPages(t Tool) bool { return !t.Definition.VisibleTo("model") }

// isForPages reports whether only pages may call a tool, given the server's name for it.
func (s *supervisor) isForPages(ctx context.Context, tool string) bool {
	tools := s.offeredTo(ctx).tools
	for i := range tools {
		if tools[i].Definition.Name == tool {
			return isForPages(tools[i])
		}
	}
	return false
}
