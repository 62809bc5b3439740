package revision

import (
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Answer is the revision with which a server answers an initialize request that
// offers one: the same if it is one we speak in that way, our newest with a
// handshake otherwise (2025-11-25, basic/lifecycle, Version Negotiation).
func Answer(offered mcp.Revision) mcp.Revision {
	if offered.Known() && !offered.Modern() {
		return offered
	}
	return mcp.LatestLegacy
}

// Choose picks the newest revision that we speak from a server's list, and
// reports whether there is one.
func Choose(supported []string) (mcp.Revision, bool) {
	for _, r := range mcp.Revisions() {
		for _, s := range supported {
			if string(r) == s {
				return r, true
			}
		}
	}
	return "", false
}

// ModernError reports whether a code is one that only a modern server uses, so
// that a client must not fall back to the handshake because of it (2026-07-28,
// basic/versioning).
func ModernError(code int64) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeMissingCapability || code == mcp.CodeUnsupportedVersion
}

// IsModern reports whether a message that arrived without headers is of the
// modern era: it says so itself, or it is the one method every modern server has.
func IsModern(m *jsonrpc.Message) bool {
	if m.Method == mcp.MethodDiscover {
		return true
	}
	_, ok := RequestVersion(m)
	return ok
}

// RequestVersion returns the protocol version that a request carries in its _meta.
// A version that is not a string is there, and empty.
func RequestVersion(m *jsonrpc.Message) (version string, ok bool) {
	meta, ok := m.Params.Get("_meta")
	if !ok {
		return "", false
	}
	raw, ok := jsonrpc.Get(meta, mcp.MetaProtocolVersion)
	return jsonrpc.Unquote(raw), ok
}
