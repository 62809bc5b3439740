package mcp

import "github.com/parley-mcp/parley/jsonrpc"

// Implementation describes a server or client program. It is not verified: use it for display and
// logs only, never for decisions about behaviour or security.
type Implementation struct {
	// Name identifies the program.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Version is the version of the program.
	Version string `json:"version"`
	// Description describes the program. Since 2025-11-25.
	Description string `json:"description,omitempty"`
	// Icons are icons of the program. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// WebsiteURL is the website of the program. Since 2025-11-25.
	WebsiteURL string `json:"websiteUrl,omitempty"`
}

// InitializeParams are the parameters of initialize, the first request of a session. Until
// 2025-11-25.
type InitializeParams struct {
	ParamsBase

	// ProtocolVersion is the latest revision that the client supports.
	ProtocolVersion Revision `json:"protocolVersion"`
	// Capabilities are the capabilities of the client.
	Capabilities ClientCapabilities `json:"capabilities"`
	// ClientInfo describes the client.
	ClientInfo Implementation `json:"clientInfo"`
}

// InitializeResult is the result of initialize. Until 2025-11-25.
type InitializeResult struct {
	ResultBase

	// ProtocolVersion is the revision of the session: that of the request, or another one that the
	// server supports. A client that does not support it disconnects.
	ProtocolVersion Revision `json:"protocolVersion"`
	// Capabilities are the capabilities of the server.
	Capabilities ServerCapabilities `json:"capabilities"`
	// ServerInfo describes the server.
	ServerInfo Implementation `json:"serverInfo"`
	// Instructions describe to a model how to use the server.
	Instructions string `json:"instructions,omitempty"`
}

// DiscoverResult is the result of server/discover, whose parameters are [EmptyParams]. Since
// 2026-07-28.
type DiscoverResult struct {
	ResultBase
	CacheHints

	// SupportedVersions are the revisions that the server supports. The client may not know some of
	// them.
	SupportedVersions []string `json:"supportedVersions"`
	// Capabilities are the capabilities of the server.
	Capabilities ServerCapabilities `json:"capabilities"`
	// Instructions describe to a model how to use the server.
	Instructions string `json:"instructions,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r DiscoverResult) MarshalJSON() ([]byte, error) {
	type plain DiscoverResult
	return encode((*plain)(&r))
}

// CancelledParams are the parameters of notifications/cancelled.
type CancelledParams struct {
	ParamsBase

	// RequestID is the id of the cancelled request. The request was sent by the sender of the
	// notification, except that a server uses the notification to end a subscriptions/listen
	// request. It may be absent in 2025-11-25, for the cancellation of a task.
	RequestID jsonrpc.ID `json:"requestId,omitzero"`
	// Reason is the reason, for logs and display.
	Reason string `json:"reason,omitempty"`
}
