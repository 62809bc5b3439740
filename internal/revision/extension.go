package revision

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// NotificationPrefix is what the names of notifications begin with, and those of
// requests do not.
const NotificationPrefix = "notifications/"

// maxExtensionMethod bounds the names of methods, in bytes: they are sent in a header.
const maxExtensionMethod = 128

// official are the methods of official extensions since 2026-07-28. In 2025-11-25 some
// of their names belong to the core.
var official = map[string]string{
	mcp.MethodGetTask:     mcp.ExtensionTasks,
	mcp.MethodUpdateTask:  mcp.ExtensionTasks,
	mcp.MethodCancelTask:  mcp.ExtensionTasks,
	mcp.NotificationTasks: mcp.ExtensionTasks,
}

// CheckExtensionMethod returns why an extension cannot have a method of this name, or
// nil: it is the protocol's, in any revision, or no name.
func CheckExtensionMethod(method, extension string) error {
	if method == "" || len(method) > maxExtensionMethod {
		return fmt.Errorf("a method's name has 1 to %d characters", maxExtensionMethod)
	}
	for _, segment := range strings.Split(method, "/") {
		if segment == "" {
			return fmt.Errorf("method %q: a name has no empty segments", method)
		}
		for _, c := range []byte(segment) {
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
				return fmt.Errorf("method %q: a name has letters, digits, _ - . and / only, not %q", method, c)
			}
		}
	}
	switch owner := official[method]; {
	case owner == extension && owner != "":
		return nil
	case owner != "":
		return fmt.Errorf("method %q belongs to the extension %s", method, owner)
	case Lookup(method) != nil:
		return fmt.Errorf("method %q is the protocol's", method)
	case strings.HasPrefix(method, "rpc."): // JSON-RPC 2.0, section 4
		return fmt.Errorf("method %q: names that begin with rpc. are those of JSON-RPC", method)
	}
	return nil
}

// Extends reports whether revision r leaves a method to extensions.
func Extends(method string, r mcp.Revision) bool {
	if official[method] != "" {
		return r.Modern()
	}
	return Lookup(method) == nil
}

// SpeakClient returns a client's capabilities as a server of revision r can read them.
func SpeakClient(r mcp.Revision, c mcp.ClientCapabilities) mcp.ClientCapabilities {
	if r < sinceExtensions {
		c.Experimental, c.Extensions = declareEarly(c.Experimental, c.Extensions)
	}
	return c
}

// declareEarly declares extensions in a handshake. The schemas of its time know
// experimental capabilities only; where the members of initialize were agreed on later,
// extensions have a place of their own in it all the same (SEP-2133, Capabilities), and
// peers look in either. What became an extension of the core is none before.
func declareEarly(experimental, extensions map[string]json.RawMessage) (both, early map[string]json.RawMessage) {
	early = maps.Clone(extensions)
	delete(early, mcp.ExtensionTasks)
	if len(early) == 0 {
		return experimental, nil
	}
	both = maps.Clone(early)
	maps.Copy(both, experimental)
	return both, early
}
