package server

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// The keys of _meta that a program sends must follow the grammar, and must be keys of the
// program or of trace context (2026-07-28, basic, _meta). Keys that a client sends are not
// checked: the specification does not require a server to reject any.

// officialPrefix is the prefix of the keys of official extensions, which a program may send
// if it supports such an extension. The keys of the core protocol remain reserved.
const officialPrefix = "io.modelcontextprotocol/"

var coreKeys = []string{
	mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel, mcp.MetaServerInfo, mcp.MetaSubscriptionID,
}

// checkMeta returns an error if a program must not send these keys.
func (c *Catalog) checkMeta(meta mcp.Meta) error {
	if len(meta) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if strings.HasPrefix(key, officialPrefix) && !slices.Contains(coreKeys, key) && c.extensions.official() && mcp.CheckMetaKey(key) == nil {
			continue
		}
		if err := mcp.CheckMeta(key, meta[key]); err != nil {
			return err
		}
	}
	return nil
}

// official reports whether the server supports an official extension.
func (x *extensions) official() bool {
	for id := range x.declared() {
		if strings.HasPrefix(id, officialPrefix) {
			return true
		}
	}
	return false
}
