package revision

import "github.com/parley-mcp/parley/jsonrpc"

// CancelledID returns the id of the request that a notifications/cancelled is
// about, or the zero ID for one that is malformed, which is to be ignored.
func CancelledID(m *jsonrpc.Message) (id jsonrpc.ID) {
	raw, _ := m.Params.Get("requestId")
	_ = id.UnmarshalJSON(raw) // leaves id zero
	return id
}
