package revision

import (
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// LogOf returns the params of a notifications/message. It reports false for a malformed message and an
// unknown level, which the receiver must ignore.
func LogOf(m *jsonrpc.Message) (params mcp.LoggingMessageParams, ok bool) {
	err := schema.Decode(m.Raw, &params)
	return params, err == nil && params.Level.Known()
}

// CancelledID returns the id of the request that a notifications/cancelled message cancels.
// It returns the zero ID for a malformed message, which the receiver must ignore.
func CancelledID(m *jsonrpc.Message) (id jsonrpc.ID) {
	raw, _ := m.Params.Get("requestId")
	_ = id.UnmarshalJSON(raw) // a failure leaves id zero
	return id
}
