package gateway

import (
	"slices"
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/glob"
)

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
		return strings.HasPrefix(literal, s.Prefix) || literal != pattern && strings.HasPrefix(s.Prefix, literal)
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
	status.Tools = slices.DeleteFunc(slices.Clone(status.Tools), func(m host.MergedTool) bool { return !selects(t.Tools, m.Name) })
	status.Prompts = slices.DeleteFunc(slices.Clone(status.Prompts), func(m host.MergedPrompt) bool { return !selects(t.Prompts, m.Name) })
	if !all {
		status.Resources, status.Templates = nil, nil
		if len(status.Tools)+len(status.Prompts) == 0 {
			status.Server.Instructions = ""
		}
	}
	return status
}
