package mcp

import "github.com/parley-mcp/parley/jsonrpc"

// ProgressParams are the parameters of notifications/progress.
type ProgressParams struct {
	ParamsBase

	// ProgressToken is the [MetaProgressToken] of the request.
	ProgressToken jsonrpc.ID `json:"progressToken"`
	// Progress is the progress so far. It increases with every notification.
	Progress float64 `json:"progress"`
	// Total is the final value of Progress. 0 means that it is unknown.
	Total float64 `json:"total,omitzero"`
	// Message describes the progress, for display. Since 2025-03-26.
	Message string `json:"message,omitempty"`
}
