package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// Keys of _meta that a program sends follow the grammar, and are its own or trace
// context's (2026-07-28, basic, _meta). What a client sends under other keys is left
// alone: nobody is told to refuse it, and handlers may want to see it.

// officialPrefix is what the keys of official extensions begin with, which a program may
// use that supports one. Those of the core stay the core's.
const officialPrefix = "io.modelcontextprotocol/"

var coreKeys = []string{
	mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel, mcp.MetaServerInfo, mcp.MetaSubscriptionID,
}

// checkMeta returns why a program cannot send these, or nil.
func (s *Server) checkMeta(meta mcp.Meta) error {
	if len(meta) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if strings.HasPrefix(key, officialPrefix) && !slices.Contains(coreKeys, key) && s.extensions.official() && mcp.ValidMetaKey(key) == nil {
			continue
		}
		if err := rpc.CheckMeta(key, meta[key]); err != nil {
			return fmt.Errorf("the definition or result cannot be encoded: %w", err)
		}
	}
	return nil
}

// official reports whether there is an official extension.
func (x *extensions) official() bool {
	for id := range x.declared() {
		if strings.HasPrefix(id, officialPrefix) {
			return true
		}
	}
	return false
}
