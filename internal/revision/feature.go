package revision

import "github.com/parley-mcp/parley/mcp"

// Feature is a part of the protocol, other than a method, that some revisions have.
type Feature struct {
	first, last mcp.Revision // both inclusive; an empty first is the oldest, an empty last the newest
}

// The features of input requests.
var (
	FormElicitation = Feature{first: v06}
	URLElicitation  = Feature{first: v11}
	ElicitationIDs  = Feature{first: v11, last: v11} // the ids to which notifications/elicitation/complete refers
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
	StreamPolling    = Feature{first: v11, last: v11} // a server may close a connection and continue its stream on another
	HTTPWithSSE      = Feature{last: v2024}           // HTTP+SSE: an event stream and an endpoint to post to
)

// The features of the envelope.
var (
	Batches      = Feature{first: v03, last: v03} // several messages in one array (2025-03-26, basic, Batching)
	NullErrorIDs = Feature{last: v06}             // an error whose request has no readable id carries the id null
)

// In reports whether revision r has the feature.
func (f Feature) In(r mcp.Revision) bool {
	return r >= f.first && (f.last == "" || r <= f.last)
}
