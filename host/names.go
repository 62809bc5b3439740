package host

import (
	"log/slog"
	"strconv"

	"github.com/parley-mcp/parley/mcp"
)

const (
	// separator separates the name of a server from the name of its tool.
	separator = "__"

	// maxMergedName is the maximum length of a tool name (2026-07-28, server/tools,
	// Tool Names).
	maxMergedName = 128
)

// MergedTool is a tool in the merged list of a [Host].
type MergedTool struct {
	// Name is the name in the merged list: the name of the server, two underscores and
	// the name of the tool. It is unique within the Host, has at most 128 characters,
	// and stays the same for as long as the server lists the tool. Characters other
	// than ASCII letters, digits, hyphens, underscores and dots are replaced by
	// underscores. A number is appended if the name is already in use.
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

// Tools returns the tools of all servers in one list, in the order of Host.Servers and
// of each server's own list. It includes the tools of servers that were ready and are
// down now: a call starts those servers again. The caller owns the slice. It must not
// modify the definitions.
func (h *Host) Tools() []MergedTool {
	var all []MergedTool
	for _, s := range h.supervisors {
		status, _ := s.snapshot()
		all = append(all, status.Tools...)
	}
	return all
}

// mergedTools returns the tools of a server with their merged names. before is the
// previous list of the server. If the server lists a name twice, the first definition
// is used.
func mergedTools(logger *slog.Logger, server string, before []MergedTool, listed []mcp.Tool) []MergedTool {
	table := newNameTable(server, listed, func(t *mcp.Tool) string { return t.Name })
	for i := range before {
		table.keep(before[i].Definition.Name, before[i].Name)
	}
	var tools []MergedTool
	for i := range listed {
		if name, ok := table.assign(logger, "tool", listed[i].Name); ok {
			tools = append(tools, MergedTool{Name: name, Server: server, Definition: listed[i]})
		}
	}
	return tools
}

// mergedPrompts is mergedTools for prompts.
func mergedPrompts(logger *slog.Logger, server string, before []MergedPrompt, listed []mcp.Prompt) []MergedPrompt {
	table := newNameTable(server, listed, func(p *mcp.Prompt) string { return p.Name })
	for i := range before {
		table.keep(before[i].Definition.Name, before[i].Name)
	}
	var prompts []MergedPrompt
	for i := range listed {
		if name, ok := table.assign(logger, "prompt", listed[i].Name); ok {
			prompts = append(prompts, MergedPrompt{Name: name, Server: server, Definition: listed[i]})
		}
	}
	return prompts
}

// nameTable assigns merged names to the names of one list of a server. The names of
// different servers cannot collide; see CheckName.
type nameTable struct {
	server   string
	listed   map[string]bool   // the names of the list; false once assigned
	kept     map[string]string // from the server's name to the merged name
	assigned map[string]bool   // merged names in use
}

func newNameTable[E any](server string, list []E, name func(*E) string) *nameTable {
	t := &nameTable{server: server, listed: make(map[string]bool, len(list)), kept: make(map[string]string, len(list)), assigned: make(map[string]bool, len(list))}
	for i := range list {
		t.listed[name(&list[i])] = true
	}
	return t
}

// keep reserves a merged name for a name that had it before and is still listed.
func (t *nameTable) keep(name, merged string) {
	if t.listed[name] {
		t.kept[name], t.assigned[merged] = merged, true
	}
}

// assign returns the merged name for a listed name. It returns false if the name was
// already assigned.
func (t *nameTable) assign(logger *slog.Logger, kind, name string) (merged string, ok bool) {
	if !t.listed[name] {
		logger.Warn(kind+" ignored: the server lists its name twice", kind, name)
		return "", false
	}
	t.listed[name] = false
	if merged, ok := t.kept[name]; ok {
		return merged, true
	}
	want := t.server + separator + name
	base := validName(want, maxMergedName)
	merged = base
	for i := 2; t.assigned[merged]; i++ {
		suffix := "_" + strconv.Itoa(i)
		merged = validName(base, maxMergedName-len(suffix)) + suffix
	}
	t.assigned[merged] = true
	if merged != want {
		logger.Warn(kind+" renamed", kind, name, "name", merged)
	}
	return merged, true
}

// validName replaces the characters that a tool name must not have and truncates the
// result to limit characters.
func validName(name string, limit int) string {
	valid := make([]byte, 0, len(name))
	for _, r := range name {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.') {
			r = '_'
		}
		valid = append(valid, byte(r))
	}
	return string(valid[:min(len(valid), limit)])
}
