package revision

import "github.com/parley-mcp/parley/mcp"

// Feature is a part of the protocol that some revisions have and that is no method.
type Feature struct {
	first, last mcp.Revision // both inclusive; an empty last is the newest
}

// The features that servers ask their clients with.
var (
	FormElicitation = Feature{first: v06}
	URLElicitation  = Feature{first: v11}
	ElicitationIDs  = Feature{first: v11, last: v11} // what notifications/elicitation/complete refers to
	SamplingTools   = Feature{first: v11}
)

// In reports whether revision r has the feature.
func (f Feature) In(r mcp.Revision) bool {
	return r >= f.first && (f.last == "" || r <= f.last)
}
