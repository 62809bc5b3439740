package mcp

import "github.com/parley-mcp/parley/jsonrpc"

// RequestMeta is a typed view of those keys of a request's _meta that the protocol defines. Decode
// the member into it to read them in one pass; other keys are dropped.
type RequestMeta struct {
	// ProgressToken is zero if no progress is asked for.
	ProgressToken jsonrpc.ID `json:"progressToken,omitzero"`
	// ProtocolVersion is required since 2026-07-28.
	ProtocolVersion Revision `json:"io.modelcontextprotocol/protocolVersion,omitempty"`
	// ClientInfo is what the client says of itself, for display only. Since 2026-07-28.
	ClientInfo *Implementation `json:"io.modelcontextprotocol/clientInfo,omitzero"`
	// ClientCapabilities are those the client has for this request. Required since 2026-07-28.
	ClientCapabilities *ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities,omitzero"`
	// LogLevel is the least level that the client wants to be sent; empty for none. Since 2026-07-28.
	LogLevel LoggingLevel `json:"io.modelcontextprotocol/logLevel,omitempty"`
	// RelatedTask is the task that the request belongs to. 2025-11-25 only.
	RelatedTask *RelatedTask `json:"io.modelcontextprotocol/related-task,omitzero"`
	// TraceParent, TraceState and Baggage are trace context, in W3C formats.
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
	Baggage     string `json:"baggage,omitempty"`
}
