package revision

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// Feature is a part of the protocol, other than a method, that some revisions have.
type Feature struct {
	first, last mcp.Revision // both inclusive; an empty first is the oldest, an empty last the newest
}

// The features of input requests.
var (
	FormElicitation = Feature{first: v06}
	URLElicitation  = Feature{first: v11}
	ElicitationIDs  = Feature{first: v11, last: v11} // the IDs that notifications/elicitation/complete refers to
	SamplingTools   = Feature{first: v11}
)

// The features of a call that needs something from its client.
var (
	ReplayedInput           = Feature{first: modern} // the handler runs again for each answer
	MissingCapabilityErrors = Feature{first: modern} // an error code for a capability that the client has not declared
)

// The two kinds of tasks.
var (
	CoreTasks     = Feature{first: v11, last: v11} // the client asks for a task (2025-11-25, basic/utilities/tasks)
	TaskExtension = Feature{first: modern}         // the server decides (tasks extension)
)

// The features of a session's event streams (basic/transports, Resumability and
// Redelivery). HTTP+SSE, of 2024-11-05, has neither, and 2026-07-28 has no sessions.
var (
	ResumableStreams = Feature{first: v03, last: v11} // events have ids
	// a server may close a connection and continue its stream on another
	StreamPolling = Feature{first: v11, last: v11}
	HTTPWithSSE   = Feature{last: v2024} // HTTP+SSE: an event stream and an endpoint to post to
)

// The features of the envelope.
var (
	Batches      = Feature{first: v03, last: v03} // several messages in one array (2025-03-26, basic, Batching)
	NullErrorIDs = Feature{last: v06}             // an error about a request without a readable ID has the ID null
)

// In reports whether revision r has the feature.
func (f Feature) In(r mcp.Revision) bool {
	return r >= f.first && (f.last == "" || r <= f.last)
}

// NotificationPrefix is the prefix of the names of all notifications, and of no requests.
const NotificationPrefix = "notifications/"

// maxExtensionMethod limits the names of methods, in bytes, because they are sent in a
// header.
const maxExtensionMethod = 128

// officialMethods lists the methods of official extensions since 2026-07-28. In
// 2025-11-25 some of these names belong to the core protocol.
var officialMethods = map[string]string{
	mcp.MethodGetTask:     mcp.ExtensionTasks,
	mcp.MethodUpdateTask:  mcp.ExtensionTasks,
	mcp.MethodCancelTask:  mcp.ExtensionTasks,
	mcp.NotificationTasks: mcp.ExtensionTasks,
}

// CheckExtensionMethod returns an error if an extension must not define a method with this
// name: the name is malformed, or belongs to any revision of the protocol.
func CheckExtensionMethod(method, extension string) error {
	if method == "" || len(method) > maxExtensionMethod {
		return fmt.Errorf("a method name must have 1 to %d characters", maxExtensionMethod)
	}
	for _, segment := range strings.Split(method, "/") {
		if segment == "" {
			return fmt.Errorf("method %q: a name must not have empty segments", method)
		}
		for _, c := range []byte(segment) {
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
				strings.IndexByte("_-.", c) >= 0) {
				return fmt.Errorf("method %q: a name must consist of letters, digits, _ - . and /, not %q", method, c)
			}
		}
	}
	switch owner := officialMethods[method]; {
	case owner == extension && owner != "":
		return nil
	case owner != "":
		return fmt.Errorf("method %q belongs to the extension %s", method, owner)
	case Lookup(method) != nil:
		return fmt.Errorf("method %q belongs to the protocol: choose another name", method)
	case strings.HasPrefix(method, "rpc."): // reserved by JSON-RPC 2.0, section 4
		return fmt.Errorf("method %q: JSON-RPC reserves the prefix rpc.: choose another name", method)
	}
	return nil
}

// LeavesToExtensions reports whether revision r leaves a method to extensions.
func LeavesToExtensions(method string, r mcp.Revision) bool {
	if officialMethods[method] != "" {
		return r.Modern()
	}
	return Lookup(method) == nil
}

// DowngradeClientCapabilities converts a client's capabilities into a form that a server
// of revision r can read.
func DowngradeClientCapabilities(r mcp.Revision, c mcp.ClientCapabilities) mcp.ClientCapabilities {
	if r != onlyTasks {
		c.Tasks = nil
	}
	if r < sinceExtensions {
		c.Experimental, c.Extensions = declareAsExperimental(c.Experimental, c.Extensions)
	}
	return c
}

// declareAsExperimental declares extensions in a handshake. The schemas of the legacy
// revisions know only experimental capabilities. Newer peers also look for extensions in
// the handshake (SEP-2133, Capabilities), so they are declared in both places. The tasks
// extension is left out, because legacy revisions define tasks in the core protocol or not
// at all.
func declareAsExperimental(
	experimental, extensions map[string]json.RawMessage,
) (both, early map[string]json.RawMessage) {
	early = maps.Clone(extensions)
	delete(early, mcp.ExtensionTasks)
	if len(early) == 0 {
		return experimental, nil
	}
	both = maps.Clone(early)
	maps.Copy(both, experimental)
	return both, early
}

// MissingFeature is an error that matches errors.ErrUnsupported. Its value is the text.
type MissingFeature string

// Error returns the text.
func (e MissingFeature) Error() string { return string(e) }

// Is makes e match errors.ErrUnsupported.
func (e MissingFeature) Is(target error) bool { return target == errors.ErrUnsupported }
