package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
)

const (
	// separator separates the name of a server from the name of its tool.
	separator = "__"

	// maxMergedName is the maximum length of a tool name (2026-07-28, server/tools,
	// Tool Names). minMergedName is the minimum of Host.MaxName, so that names remain readable.
	maxMergedName = 128
	minMergedName = 32

	// digestLength is the length of the end of a name that was too long.
	digestLength = 9
)

// MergedTool is a tool in the merged list of a [Host].
type MergedTool struct {
	// Name is the name in the merged list: the name of the server, two underscores and
	// the name of the tool. Characters other than ASCII letters, digits, hyphens,
	// underscores and dots are replaced by underscores. The end of a name that is longer
	// than [Host.MaxName] is replaced by a digest of the whole name. The name depends on
	// nothing else. It is unique within the Host: tools that would have the same name are
	// withheld, and [ServerStatus.Incomplete] reports them.
	Name string

	// Server is the name of the server in Host.Servers.
	Server string

	// Definition is the tool as the server lists it, with the server's own name for it.
	Definition mcp.Tool
}

// MergedPrompt is a prompt of a server of a [Host].
type MergedPrompt struct {
	// Name is the name that is unique within the Host. It is formed as MergedTool.Name is.
	Name string

	// Server is the name of the server in Host.Servers.
	Server string

	// Definition is the prompt as the server lists it, with the server's own name for
	// it.
	Definition mcp.Prompt
}

// Tools returns the tools of all servers in one list, in the order of the servers and
// of each server's own list. It includes the tools of servers that were ready and are
// down now: a call starts those servers again. The caller owns the slice. It must not
// modify the definitions.
func (h *Host) Tools() []MergedTool {
	var all []MergedTool
	for _, s := range h.all() {
		status, _ := s.snapshot()
		all = append(all, status.Tools...)
	}
	return all
}

// mergedTools returns the tools of a server with their merged names. The error reports tools that are
// withheld because their merged names are the same. If the server lists a name twice, the first
// definition is used.
func (s *supervisor) mergedTools(listed []mcp.Tool) (tools []MergedTool, withheld error) {
	names, withheld := s.mergedNames("tool", len(listed), func(i int) string { return listed[i].Name })
	for i, name := range names {
		if name != "" {
			tools = append(tools, MergedTool{Name: name, Server: s.name, Definition: listed[i]})
		}
	}
	return tools, withheld
}

// mergedPrompts is mergedTools for prompts.
func (s *supervisor) mergedPrompts(listed []mcp.Prompt) (prompts []MergedPrompt, withheld error) {
	names, withheld := s.mergedNames("prompt", len(listed), func(i int) string { return listed[i].Name })
	for i, name := range names {
		if name != "" {
			prompts = append(prompts, MergedPrompt{Name: name, Server: s.name, Definition: listed[i]})
		}
	}
	return prompts, withheld
}

// mergedNames returns the merged names of n names that a server lists. The name is empty for an entry
// that is withheld. The names of different servers cannot collide; see CheckName.
func (s *supervisor) mergedNames(kind string, n int, listed func(i int) string) (merged []string, withheld error) {
	seen := make(map[string]bool, n)
	claims := make(map[string][]string, n) // the listed names by merged name
	merged = make([]string, n)
	for i := range n {
		name := listed(i)
		if seen[name] {
			s.logger.Warn(kind+" ignored: the server lists its name twice", kind, name)
			continue
		}
		seen[name] = true
		merged[i] = mergedName(s.name, name, s.maxName)
		claims[merged[i]] = append(claims[merged[i]], name)
	}
	var errs []error
	for i, name := range merged {
		switch same := claims[name]; {
		case name == "" || len(same) == 1:
		case same[0] == listed(i):
			errs = append(errs, fmt.Errorf("%ss %q are withheld: the merged name of each would be %s", kind, same, name))
			fallthrough
		default:
			merged[i] = ""
		}
	}
	return merged, errors.Join(errs...)
}

// mergedName returns the name of a tool or prompt of a server in the merged list. It depends on
// nothing else.
func mergedName(server, name string, limit int) string {
	full := server + separator + name
	valid := validName(full)
	if len(valid) <= limit {
		return valid
	}
	digest := sha256.Sum256([]byte(full))
	return valid[:limit-digestLength] + "_" + hex.EncodeToString(digest[:(digestLength-1)/2])
}

// validName replaces the characters that a tool name must not have.
func validName(name string) string {
	valid := make([]byte, 0, len(name))
	for _, r := range name {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.') {
			r = '_'
		}
		valid = append(valid, byte(r))
	}
	return string(valid)
}
