package host

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/mcp"
)

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
