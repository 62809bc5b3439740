package host

import (
	"fmt"
	"slices"
	"sync"
)

// nameTable has the merged names of all servers. It withholds names that several servers claim,
// so that no name means the tool of one server now and of another one later.
//
// Its mutex is locked before that of a supervisor. It is claimants while lists change, and never
// during I/O.
type nameTable struct {
	mu      sync.RWMutex
	tools   claims
	prompts claims
}

// claims are the claims to merged names.
type claims map[string][]claim

// claim says that a server has a tool or prompt with a merged name.
type claim struct {
	supervisor *supervisor
	listed     string // the name that the server uses
}

// replace replaces the claims of a server, and adds the servers whose names may be withheld now
// or no longer to affected.
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
	return fmt.Errorf("%s %s is withheld: the servers %q have it", kind, name, servers)
}

// tool returns the server that has a tool with a merged name, and the name that the server uses.
// The error is nil if there is none.
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
	return nil, "", fmt.Errorf("%w: %w", ErrUnknownTool, c.tools.conflict("tool", name))
}
