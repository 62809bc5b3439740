package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

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
	// the name of the tool. [ServerConfig] can set another prefix and another name of the
	// tool. Characters other than ASCII letters, digits, hyphens, underscores and dots are
	// replaced by underscores. If tools of one server would then have the same name, such as 検索
	// and 削除, a digest of the whole name follows where characters were replaced. The end of a
	// name that is longer than [Host.MaxName] is replaced by such a digest. The name depends on
	// nothing else. It is unique within the Host: other tools that would have the same name are
	// withheld, and [ServerStatus.Incomplete] reports them.
	Name string

	// Server is the name of the server in Host.Servers.
	Server string

	// Definition is the tool as the server lists it, with the server's own name for it.
	Definition mcp.Tool
}

// MergedPrompt is a prompt of a server of a [Host].
type MergedPrompt struct {
	// Name is the name that is unique within the Host. It is formed as MergedTool.Name is, except
	// that no character is replaced and that it may have any length.
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
// modify the definitions. The tools of a server with [ServerConfig.CallerAuth] are those that it
// lists without the credentials of a caller.
func (h *Host) Tools() (all []MergedTool) {
	for _, l := range h.toolLists(context.Background()) {
		all = append(all, l.tools...)
	}
	return all
}

// nameTools returns the tools of a list that are selected, with their merged names. The names of
// tools that are withheld are empty: they would be the same, which the error reports. If the server
// lists a name twice, the first definition is used.
func (n *naming) nameTools(server string, logger *slog.Logger, listed []mcp.Tool) (tools []MergedTool, withheld error) {
	names := mergeNames("tool", logger, n.toolName, n.distinctToolName, len(listed), func(i int) (string, bool) { return listed[i].Name, n.tools.tool(&listed[i]) })
	for i, name := range names.merged {
		if name != "" {
			tools = append(tools, MergedTool{Name: name, Server: server, Definition: listed[i]})
		}
	}
	return tools, names.withheld
}

// namePrompts is nameTools for prompts.
func (n *naming) namePrompts(server string, logger *slog.Logger, listed []mcp.Prompt) (prompts []MergedPrompt, withheld error) {
	names := mergeNames("prompt", logger, n.promptName, n.promptName, len(listed), func(i int) (string, bool) { return listed[i].Name, n.prompts.names(listed[i].Name) })
	for i, name := range names.merged {
		if name != "" {
			prompts = append(prompts, MergedPrompt{Name: name, Server: server, Definition: listed[i]})
		}
	}
	return prompts, names.withheld
}

// named are the merged names of a list. A name is empty if its entry is not selected or withheld.
type named struct {
	merged   []string
	withheld error
}

// mergeNames returns the merged names of the selected of count entries of a list. Merge returns that of one name, and
// distinguish another one for a name that is merged with others, or the same.
func mergeNames(kind string, logger *slog.Logger, merge, distinguish func(name string) string, count int, listed func(i int) (name string, selected bool)) named {
	seen := make(map[string]bool, count)
	claims := make(map[string][]string, count) // the listed names by merged name
	merged := make([]string, count)
	for i := range count {
		name, selected := listed(i)
		if seen[name] {
			logger.Warn(kind+" ignored: the server lists its name twice", kind, name)
			continue
		}
		if seen[name] = true; selected {
			merged[i] = merge(name)
			claims[merged[i]] = append(claims[merged[i]], name)
		}
	}
	for i, name := range merged {
		if len(claims[name]) > 1 {
			original, _ := listed(i)
			merged[i] = distinguish(original)
		}
	}
	clear(claims)
	for i, name := range merged {
		if name != "" {
			original, _ := listed(i)
			claims[name] = append(claims[name], original)
		}
	}
	var errs []error
	for i, name := range merged {
		same := claims[name]
		if name == "" || len(same) == 1 {
			continue
		}
		if listed, _ := listed(i); same[0] == listed {
			errs = append(errs, fmt.Errorf("%ss %q are withheld: the merged name of each would be %s", kind, same, name))
		}
		merged[i] = ""
	}
	return named{merged, errors.Join(errs...)}
}

// toolName returns the name of a tool in the merged list, unless other tools have it.
func (n *naming) toolName(name string) string {
	full := n.prefix + n.tools.renamed(name)
	if valid := validName(full); len(valid) <= n.maxName {
		return valid
	}
	return n.digested(full)
}

// distinctToolName returns the name of a tool in the merged list for one whose toolName others have.
func (n *naming) distinctToolName(name string) string {
	full := n.prefix + n.tools.renamed(name)
	if validName(full) == full {
		return n.toolName(name)
	}
	return n.digested(full)
}

// digested returns a name with a digest at its end.
func (n *naming) digested(full string) string {
	valid, digest := validName(full), sha256.Sum256([]byte(full))
	return valid[:min(len(valid), n.maxName-digestLength)] + "_" + hex.EncodeToString(digest[:(digestLength-1)/2])
}

// promptName is toolName for prompts, whose names may have any length and any characters.
func (n *naming) promptName(name string) string { return n.prefix + n.prompts.renamed(name) }

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
