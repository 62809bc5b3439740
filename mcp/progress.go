package mcp

import "github.com/parley-mcp/parley/jsonrpc"

// ProgressParams are the parameters of notifications/progress.
type ProgressParams struct {
	ParamsBase

	// ProgressToken is what the request being worked on gave as [MetaProgressToken].
	ProgressToken jsonrpc.ID `json:"progressToken"`
	// Progress grows with every notification, whether or not the total is known.
	Progress float64 `json:"progress"`
	// Total is what Progress will be at the end; zero if that is not known.
	Total float64 `json:"total,omitzero"`
	// Message is for people. Since 2025-03-26.
	Message string `json:"message,omitempty"`
}
