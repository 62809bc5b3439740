package revision

import (
	"encoding/json"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Negotiate returns the revision with which a server answers an initialize request that
// offers a revision: the offered one if it is a known legacy revision, otherwise the newest
// legacy revision (2025-11-25, basic/lifecycle, Version Negotiation).
func Negotiate(offered mcp.Revision) mcp.Revision {
	if offered.Known() && !offered.Modern() {
		return offered
	}
	return mcp.LatestLegacy
}

// Choose returns the newest known revision of a server's list. It reports false if there is
// none.
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

// IsModernError reports whether only modern servers use an error code. A client that
// receives such a code must not fall back to the handshake (2026-07-28, basic/versioning).
func IsModernError(code int64) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeMissingCapability || code == mcp.CodeUnsupportedVersion
}

// Supported returns the revisions that a server of this library serves, newest first.
func Supported() []string {
	var all []string
	for _, r := range mcp.Revisions() {
		all = append(all, string(r))
	}
	return all
}

// UnsupportedError returns the error for a modern message in a revision that the server
// does not serve. Its data lists the supported revisions, legacy ones too, so that the
// client can choose one (2026-07-28, basic/versioning).
func UnsupportedError(requested string) *jsonrpc.Error {
	data := mcp.UnsupportedVersionData{Supported: Supported(), Requested: requested}
	raw, _ := json.Marshal(data) // strings cannot fail to encode
	return &jsonrpc.Error{Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version", Data: raw}
}
