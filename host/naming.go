package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

const (
	// separator separates the name of a server from the name of its tool.
	separator = "__"

	// maxMergedName is the maximum length of a tool name (2026-07-28, server/tools,
	// Tool Names). minMergedName is the minimum of Host.MaxName, so that names remain readable.
	maxMergedName = 128
	minMergedName = 32

	// digestLength is the length of the digest that replaces the end of a name that is too long.
	digestLength = 9
)

// naming decides how a server's tools and prompts are selected and named. It is immutable.
type naming struct {
	config         *ServerConfig
	prefix         string   // includes the separator; may be empty
	reserved       []string // lower-case beginnings of merged names that belong to other servers; see reservedFor
	tools, prompts Selection
	maxName        int
}

func newNaming(config *ServerConfig, maxName int, reserved []string) *naming {
	return &naming{config: config, prefix: config.NamePrefix(), reserved: reserved, tools: config.Tools,
		prompts: config.Prompts, maxName: maxName}
}

// reservedFor returns the beginnings that a server's merged names must not have: the names and prefixes of the
// other servers, started or not. Only a server without a prefix can list such names, because a prefix contains
// no separator.
func reservedFor(config *ServerConfig, servers []ServerConfig) (reserved []string) {
	if config.NamePrefix() != "" {
		return nil
	}
	for i := range servers {
		if other := &servers[i]; other.Name != config.Name {
			for _, begin := range []string{other.Name + separator, other.NamePrefix()} {
				if begin != "" {
					reserved = append(reserved, strings.ToLower(begin))
				}
			}
		}
	}
	slices.Sort(reserved)
	return slices.Compact(reserved)
}

// isReserved reports whether a merged name begins with the prefix of another server.
func (n *naming) isReserved(merged string) bool {
	begin, _, found := strings.Cut(merged, separator)
	if !found || n.reserved == nil {
		return false
	}
	_, reserved := slices.BinarySearch(n.reserved, strings.ToLower(begin)+separator)
	return reserved
}

// NamePrefix returns the prefix of the server's tools and prompts in the merged lists, including the two underscores.
// It is empty with NoPrefix.
func (config *ServerConfig) NamePrefix() string {
	if config.NoPrefix {
		return ""
	}
	return cmp.Or(config.Prefix, config.Name) + separator
}

// nameTools returns the tools of a list that are selected, with their merged names. The names of
// withheld tools are empty; the error reports the collisions. If the server lists a name twice, the
// first definition is used.
func (n *naming) nameTools(server string, logger *slog.Logger,
	listed []mcp.Tool) (tools []Tool, withheld error) {
	names := n.mergeNames("tool", logger, n.toolName, n.distinctToolName, len(listed),
		func(i int) (string, bool) { return listed[i].Name, n.tools.tool(&listed[i]) })
	for i, name := range names.merged {
		if name != "" {
			tools = append(tools, Tool{Name: name, Server: server, Definition: listed[i]})
		}
	}
	return tools, names.withheld
}

// namePrompts does for prompts what nameTools does for tools.
func (n *naming) namePrompts(server string, logger *slog.Logger,
	listed []mcp.Prompt) (prompts []Prompt, withheld error) {
	names := n.mergeNames("prompt", logger, n.promptName, n.promptName, len(listed),
		func(i int) (string, bool) { return listed[i].Name, n.prompts.names(listed[i].Name) })
	for i, name := range names.merged {
		if name != "" {
			prompts = append(prompts, Prompt{Name: name, Server: server, Definition: listed[i]})
		}
	}
	return prompts, names.withheld
}

// named contains the merged names of a list. A name is empty if its entry is withheld or not selected.
type named struct {
	merged   []string
	withheld error
}

// mergeNames returns the merged names of the selected entries of a list of count entries. merge returns the merged
// name for a name. If several names collide, distinguish returns another one, or the same.
func (n *naming) mergeNames(kind string, logger *slog.Logger, merge, distinguish func(name string) string, count int,
	listed func(i int) (name string, selected bool)) named {
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
		if n.isReserved(name) {
			errs = append(errs, fmt.Errorf("%s %s is withheld: it has the name of another server before %s; rename "+
				"it, or give its server a prefix", kind, name, separator))
			merged[i] = ""
			continue
		}
		same := claims[name]
		if name == "" || len(same) == 1 {
			continue
		}
		if listed, _ := listed(i); same[0] == listed {
			errs = append(errs, fmt.Errorf("%ss %q are withheld: the merged name of each would be %s", kind, same,
				name))
		}
		merged[i] = ""
	}
	return named{merged, joined(kind+"s are withheld, too", errs)}
}

// toolName returns the name of a tool in the merged list, unless it collides with other tools.
func (n *naming) toolName(name string) string {
	full := n.prefix + n.tools.renamed(name)
	if valid := validName(full); len(valid) <= n.maxName {
		return valid
	}
	return n.digested(full)
}

// distinctToolName returns the name in the merged list of a tool whose toolName collides with others.
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

// promptName returns the name of a prompt in the merged list. It may have any length and contain any
// characters.
func (n *naming) promptName(name string) string { return n.prefix + n.prompts.renamed(name) }

// validName replaces the characters that a tool name must not contain.
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
