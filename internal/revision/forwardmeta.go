package revision

import (
	"encoding/json"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// WithForwardableMeta returns an object with those entries of its _meta that [IsForwardable] accepts, and without _meta if there
// are none. It does not modify the object, which must be valid JSON.
func WithForwardableMeta(object json.RawMessage) json.RawMessage {
	meta, ok := jsonrpc.Get(object, "_meta")
	if !ok {
		return object
	}
	var rejected []string
	accepted := false
	for key, value := range jsonrpc.All(meta) {
		if IsForwardable(key, value) {
			accepted = true
		} else {
			rejected = append(rejected, key)
		}
	}
	switch {
	case !accepted:
		return WithoutMembers(object, "_meta")
	case rejected == nil:
		return object
	}
	return withMember(object, "_meta", WithoutMembers(meta, rejected...))
}

// ForwardableMeta returns the entries of _meta that a gateway may send to the other side: valid keys that
// are not reserved by the protocol.
func ForwardableMeta(meta mcp.Meta) mcp.Meta {
	var kept mcp.Meta
	for key, value := range meta {
		if !IsForwardable(key, value) {
			continue
		}
		if kept == nil {
			kept = make(mcp.Meta, len(meta))
		}
		kept[key] = value
	}
	return kept
}

// IsForwardable reports whether mcp.CheckMeta accepts an entry of _meta. Most entries are those of the
// protocol, which it rejects without the cost of an error.
func IsForwardable(key string, value json.RawMessage) bool {
	return !strings.HasPrefix(key, "io.modelcontextprotocol/") && mcp.CheckMeta(key, value) == nil
}
