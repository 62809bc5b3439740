package mcp

import "github.com/parley-mcp/parley/jsonrpc"

// RequestMeta are the keys of a request's [Meta] that the protocol defines. Decode the _meta member
// into it to read all of them at once. Decoding drops other keys.
type RequestMeta struct {
	// ProgressToken is [MetaProgressToken]. Zero means absent.
	ProgressToken jsonrpc.ID `json:"progressToken,omitzero"`
	// ProtocolVersion is [MetaProtocolVersion]. Required since 2026-07-28.
	ProtocolVersion Revision `json:"io.modelcontextprotocol/protocolVersion,omitempty"`
	// ClientInfo is [MetaClientInfo], for display only. Since 2026-07-28.
	ClientInfo *Implementation `json:"io.modelcontextprotocol/clientInfo,omitzero"`
	// ClientCapabilities is [MetaClientCapabilities]. Required since 2026-07-28.
	ClientCapabilities *ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities,omitzero"`
	// LogLevel is [MetaLogLevel]. Empty means absent. Since 2026-07-28.
	LogLevel LoggingLevel `json:"io.modelcontextprotocol/logLevel,omitempty"`
	// RelatedTask is [MetaRelatedTask]. 2025-11-25 only.
	RelatedTask *RelatedTask `json:"io.modelcontextprotocol/related-task,omitzero"`
	// TraceParent is [MetaTraceParent].
	TraceParent string `json:"traceparent,omitempty"`
	// TraceState is [MetaTraceState].
	TraceState string `json:"tracestate,omitempty"`
	// Baggage is [MetaBaggage].
	Baggage string `json:"baggage,omitempty"`
}
