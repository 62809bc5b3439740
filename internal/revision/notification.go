package revision

import (
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// DeliverLog passes the params of a notifications/message to receive, which may be nil. It
// ignores a malformed message and an unknown level.
func DeliverLog(m *jsonrpc.Message, receive func(mcp.LoggingMessageParams)) {
	if receive == nil {
		return
	}
	var params mcp.LoggingMessageParams
	if schema.Decode(m.Raw, &params) == nil && params.Level.Known() {
		receive(params)
	}
}

// CancelledID returns the id of the request that a notifications/cancelled message cancels.
// It returns the zero ID for a malformed message, which the receiver must ignore.
func CancelledID(m *jsonrpc.Message) (id jsonrpc.ID) {
	raw, _ := m.Params.Get("requestId")
	_ = id.UnmarshalJSON(raw) // a failure leaves id zero
	return id
}
