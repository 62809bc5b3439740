package mcp

import "encoding/json"

// Content is a block of content: what tools return, prompts are made of and models exchange. It is
// one of *[TextContent], *[ImageContent], *[AudioContent], *[ResourceLink], *[EmbeddedResource],
// *[ToolUseContent], *[ToolResultContent] and *[UnknownContent]. The two about tool use occur in
// sampling only.
type Content interface {
	// wire returns what the block is encoded as, or an error if it cannot be.
	wire() (any, error)
}

// Text returns a block of text.
func Text(text string) *TextContent {
	return &TextContent{Text: text}
}

// Image returns a block with an image of the given MIME type. It keeps data, which is encoded as base64
// on the wire.
func Image(data []byte, mimeType string) *ImageContent {
	return &ImageContent{Data: data, MimeType: mimeType}
}

// Audio returns a block with audio of the given MIME type. It keeps data, which is encoded as base64
// on the wire.
func Audio(data []byte, mimeType string) *AudioContent {
	return &AudioContent{Data: data, MimeType: mimeType}
}

// TextContent is text.
type TextContent struct {
	// Text is valid UTF-8, or else it does not encode; strings.ToValidUTF8 mends what is not.
	Text        string       `json:"text"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"` // since 2025-06-18
}

// ImageContent is an image.
type ImageContent struct {
	Data        []byte       `json:"data"` // base64 on the wire
	MimeType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"` // since 2025-06-18
}

// AudioContent is sound. Since 2025-03-26.
type AudioContent struct {
	Data        []byte       `json:"data"` // base64 on the wire
	MimeType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"` // since 2025-06-18
}

// ResourceLink refers to a resource that can be read from the server, whether or not the server
// lists it. It has the fields of a [Resource], and a Resource converts to it. Since 2025-06-18.
type ResourceLink Resource

// EmbeddedResource is the contents of a resource.
type EmbeddedResource struct {
	Resource    ResourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitzero"`
	Meta        Meta             `json:"_meta,omitzero"` // since 2025-06-18
}

// ToolUseContent is a model's wish to call a tool, in sampling. Since 2025-11-25.
type ToolUseContent struct {
	// ID is what the [ToolResultContent] will refer to.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Input are the arguments, a JSON object; nil is encoded as {}.
	Input json.RawMessage `json:"input"`
	// Meta should be kept when the block is sent back to the model.
	Meta Meta `json:"_meta,omitzero"`
}

// ToolResultContent is what a tool that a model wished to call returned, in sampling. Since 2025-11-25.
type ToolResultContent struct {
	// ToolUseID is the ID of the [ToolUseContent] that is answered.
	ToolUseID string `json:"toolUseId"`
	// Content, StructuredContent and IsError are as in [CallToolResult].
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	IsError           bool            `json:"isError,omitzero"`
	// Meta should be kept when the block is sent back to the model.
	Meta Meta `json:"_meta,omitzero"`
}

// UnknownContent is a block that a peer sent and this package has no type for, kept as it was so that
// newer peers can be talked to and their content passed on.
type UnknownContent struct {
	// Type is the block's type member.
	Type string
	// Raw is the whole block, its type member included.
	Raw json.RawMessage
}

// Annotations tell a client for whom and how important something is.
type Annotations struct {
	Audience []Role `json:"audience,omitzero"`
	// Priority is from 0, optional, to 1, required.
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is a time in RFC 3339 format. Since 2025-06-18.
	LastModified string `json:"lastModified,omitempty"`
}

// Role is a side of a conversation with a model.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)
