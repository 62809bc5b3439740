package mcp

import "github.com/parley-mcp/parley/jsonrpc"

// Implementation is what a program says of itself. It is not verified: show it and log it, but let
// no behaviour and no security decision depend on it.
type Implementation struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"` // since 2025-06-18
	Version     string `json:"version"`
	Description string `json:"description,omitempty"` // since 2025-11-25
	Icons       []Icon `json:"icons,omitzero"`        // since 2025-11-25
	WebsiteURL  string `json:"websiteUrl,omitempty"`  // since 2025-11-25
}

// InitializeParams are the parameters of initialize, the first request of a session. Until 2025-11-25.
type InitializeParams struct {
	ParamsBase

	// ProtocolVersion is the newest revision that the client speaks.
	ProtocolVersion Revision           `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
}

// InitializeResult answers initialize. Until 2025-11-25.
type InitializeResult struct {
	ResultBase

	// ProtocolVersion is the revision that the session will be in: the client's, or another that the
	// server prefers. A client that does not speak it disconnects.
	ProtocolVersion Revision           `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	// Instructions tell a model how to use the server.
	Instructions string `json:"instructions,omitempty"`
}

// DiscoverResult answers server/discover, which takes [EmptyParams]. Since 2026-07-28.
type DiscoverResult struct {
	ResultBase
	CacheHints

	// SupportedVersions are the revisions that the server speaks; some may be unknown to the client.
	SupportedVersions []string           `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	// Instructions tell a model how to use the server.
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

	// RequestID is the request whose answer is no longer wanted. It was sent in the same direction
	// as the notification; the exception is the subscriptions/listen request that a server ends.
	// 2025-11-25 allows it to be absent, for the cancellation of a task.
	RequestID jsonrpc.ID `json:"requestId,omitzero"`
	// Reason is for logs and people.
	Reason string `json:"reason,omitempty"`
}
