package mcp

import "encoding/json"

// Content is a content block in a tool result, a prompt or a sampling message. It is one of
// *[TextContent], *[ImageContent], *[AudioContent], *[ResourceLink], *[EmbeddedResource],
// *[ToolUseContent], *[ToolResultContent] and *[UnknownContent]; the types without the pointer are
// not Content. A nil block cannot be encoded. ToolUseContent and ToolResultContent occur only in
// sampling messages.
type Content interface {
	// wire returns the value that the block is encoded as, or an error if it cannot be encoded.
	wire() (any, error)
}

// Text returns a block of text.
func Text(text string) *TextContent {
	return &TextContent{Text: text}
}

// Image returns an image block. It retains data, which is encoded as base64 on the wire.
func Image(data []byte, mimeType string) *ImageContent {
	return &ImageContent{Data: data, MimeType: mimeType}
}

// Audio returns an audio block. It retains data, which is encoded as base64 on the wire.
func Audio(data []byte, mimeType string) *AudioContent {
	return &AudioContent{Data: data, MimeType: mimeType}
}

// TextContent is a block of text.
type TextContent struct {
	// Text is the text. It must be valid UTF-8, or encoding fails; see strings.ToValidUTF8.
	Text string `json:"text"`
	// Annotations are hints for the client.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the metadata of the block. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
}

// ImageContent is an image.
type ImageContent struct {
	// Data is the image. It is base64 on the wire.
	Data []byte `json:"data"`
	// MimeType is the MIME type of the image, such as "image/png".
	MimeType string `json:"mimeType"`
	// Annotations are hints for the client.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the metadata of the block. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
}

// AudioContent is audio data. Since 2025-03-26.
type AudioContent struct {
	// Data is the audio data. It is base64 on the wire.
	Data []byte `json:"data"`
	// MimeType is the MIME type of the audio data, such as "audio/wav".
	MimeType string `json:"mimeType"`
	// Annotations are hints for the client.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the metadata of the block. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
}

// ResourceLink is a link to a resource of the server, which need not be in the list of resources. It
// has the fields of a [Resource], and a Resource can be converted to it. Since 2025-06-18.
type ResourceLink Resource

// EmbeddedResource is a block with the contents of a resource.
type EmbeddedResource struct {
	// Resource are the contents.
	Resource ResourceContents `json:"resource"`
	// Annotations are hints for the client.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the metadata of the block. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
}

// ToolUseContent is a request of a model to call a tool. Sampling only. Since 2025-11-25.
type ToolUseContent struct {
	// ID identifies the tool use. The [ToolResultContent] refers to it.
	ID string `json:"id"`
	// Name is the name of the tool.
	Name string `json:"name"`
	// Input are the arguments, a JSON object. Nil is encoded as {}.
	Input json.RawMessage `json:"input"`
	// Meta is the metadata of the block. Keep it when the block is sent back to the model.
	Meta Meta `json:"_meta,omitzero"`
}

// ToolResultContent is the result of a tool that a model has used. Sampling only. Since 2025-11-25.
type ToolResultContent struct {
	// ToolUseID is the ID of the [ToolUseContent].
	ToolUseID string `json:"toolUseId"`
	// Content is the result, as in [CallToolResult].
	Content []Content `json:"content"`
	// StructuredContent is the result as JSON, as in [CallToolResult].
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError reports that the tool failed.
	IsError bool `json:"isError,omitzero"`
	// Meta is the metadata of the block. Keep it when the block is sent back to the model.
	Meta Meta `json:"_meta,omitzero"`
}

// UnknownContent is a block of a type that this package does not know. It keeps the block unchanged,
// so that content from newer peers can be forwarded.
type UnknownContent struct {
	// Type is the type member of the block.
	Type string
	// Raw is the whole block, including the type member. Without it the block cannot be encoded.
	Raw json.RawMessage
}

// Annotations are hints about a content block or resource for the client.
type Annotations struct {
	// Audience are the roles that the content is meant for.
	Audience []Role `json:"audience,omitzero"`
	// Priority is the importance, from 0 (optional) to 1 (required).
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is the time of the last modification, in RFC 3339 format. Since 2025-06-18.
	LastModified string `json:"lastModified,omitempty"`
}

// Role is the role of a participant in a conversation with a model.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)
