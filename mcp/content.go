package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Content is a content block in a tool result, a prompt or a sampling message. It is one of
// *[TextContent], *[ImageContent], *[AudioContent], *[ResourceLink], *[EmbeddedResource],
// *[ToolUseContent], *[ToolResultContent] and *[UnknownContent]; the types without the pointer are
// not Content. A nil block cannot be encoded. ToolUseContent and ToolResultContent occur only in
// sampling messages.
type Content interface {
	// wire returns the value to encode for the block, or an error if it cannot be encoded.
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
	// Text is the text. Bytes that are not UTF-8 become U+FFFD when it is encoded.
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
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
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
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
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
	// Type is the type of the block.
	Type string
	// Raw is the whole block, including its type. A block without Raw cannot be encoded.
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

// The types of content blocks.
const (
	typeText         = "text"
	typeImage        = "image"
	typeAudio        = "audio"
	typeResourceLink = "resource_link"
	typeResource     = "resource"
	typeToolUse      = "tool_use"
	typeToolResult   = "tool_result"
)

// Each type has the fields of a block and no methods, so that encoding it does not call MarshalJSON
// again. The wire methods embed it. They do not use a tag option of the JSON library, because its name
// differs between that library and encoding/json/v2.
type (
	textFields         TextContent
	imageFields        ImageContent
	audioFields        AudioContent
	resourceLinkFields ResourceLink
	resourceFields     EmbeddedResource
	toolUseFields      ToolUseContent
	toolResultFields   ToolResultContent
)

func (c *TextContent) wire() (any, error) {
	return &struct {
		Type string `json:"type"`
		textFields
	}{typeText, textFields(*c)}, nil
}

func (c *ImageContent) wire() (any, error) {
	return &struct {
		Type string `json:"type"`
		imageFields
	}{typeImage, imageFields(*c)}, nil
}

func (c *AudioContent) wire() (any, error) {
	return &struct {
		Type string `json:"type"`
		audioFields
	}{typeAudio, audioFields(*c)}, nil
}

func (c *ResourceLink) wire() (any, error) {
	return &struct {
		Type string `json:"type"`
		resourceLinkFields
	}{typeResourceLink, resourceLinkFields(*c)}, nil
}

func (c *EmbeddedResource) wire() (any, error) {
	return &struct {
		Type string `json:"type"`
		resourceFields
	}{typeResource, resourceFields(*c)}, nil
}

func (c *ToolUseContent) wire() (any, error) {
	fields := toolUseFields(*c)
	if fields.Input == nil {
		fields.Input = json.RawMessage("{}")
	}
	return &struct {
		Type string `json:"type"`
		toolUseFields
	}{typeToolUse, fields}, nil
}

func (c *ToolResultContent) wire() (any, error) {
	if err := checkBlocks(c.Content); err != nil {
		return nil, err
	}
	return &struct {
		Type string `json:"type"`
		toolResultFields
	}{typeToolResult, toolResultFields(*c)}, nil
}

func (c *UnknownContent) wire() (any, error) {
	if len(c.Raw) == 0 {
		return nil, fmt.Errorf("content block of type %q: UnknownContent must have Raw", c.Type)
	}
	return c.Raw, nil
}

// checkBlocks returns an error if a block is nil. The JSON library would encode it as null without
// calling encodeContent.
func checkBlocks(blocks []Content) error {
	for i, c := range blocks {
		if c == nil || reflect.ValueOf(c).IsNil() {
			return fmt.Errorf("content block %d must not be nil", i)
		}
	}
	return nil
}

func marshalContent(c Content) ([]byte, error) {
	v, err := c.wire()
	if err != nil {
		return nil, err
	}
	return encode(v)
}

// MarshalJSON implements json.Marshaler.
func (c TextContent) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler.
func (c ImageContent) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler.
func (c AudioContent) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler.
func (c ResourceLink) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler.
func (c EmbeddedResource) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler.
func (c ToolUseContent) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler.
func (c ToolResultContent) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// MarshalJSON implements json.Marshaler. It returns Raw.
func (c UnknownContent) MarshalJSON() ([]byte, error) { return marshalContent(&c) }

// UnmarshalJSON implements json.Unmarshaler. It ignores the type.
func (c *ToolResultContent) UnmarshalJSON(data []byte) error {
	return decodeToolResult.decode(data, (*toolResultFields)(c))
}

// UnmarshalJSON implements json.Unmarshaler. It accepts a block of any type, including known types.
func (c *UnknownContent) UnmarshalJSON(data []byte) error {
	t, err := contentType(data)
	if err != nil {
		return err
	}
	*c = UnknownContent{Type: t, Raw: bytes.Clone(data)}
	return nil
}

// encodeContent writes a block to enc. It avoids the MarshalJSON method, whose output the JSON library
// would scan and copy again.
func encodeContent(enc *jsontext.Encoder, c Content) error {
	v, err := c.wire()
	if err != nil {
		return err
	}
	return jsonv2.MarshalEncode(enc, v)
}

// decodeContent decodes a block of any type.
func decodeContent(dec *jsontext.Decoder, c *Content) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return decodeAnyBlock(raw, c)
}

// decodeAnyBlock decodes a block of any type. raw must be valid JSON; it is not retained.
func decodeAnyBlock(raw []byte, c *Content) error {
	t, err := contentType(raw)
	if err != nil {
		return err
	}
	switch t {
	case typeToolUse:
		return decodeBlock(raw, c, new(ToolUseContent))
	case typeToolResult:
		return decodeBlock(raw, c, new(ToolResultContent))
	default:
		return decodeBasicBlock(t, raw, c)
	}
}

// decodeToolResult decodes the content of a tool result. A tool result does not contain tool uses
// or tool results, so the depth of decoding is limited to this level.
var decodeToolResult = newDecoding(jsonv2.UnmarshalFromFunc(
	func(dec *jsontext.Decoder, c *Content) error {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		t, err := contentType(raw)
		if err != nil {
			return err
		}
		return decodeBasicBlock(t, raw, c)
	},
))

// decodeBasicBlock decodes a block other than a tool use or a tool result. The decoder owns raw.
func decodeBasicBlock(t string, raw []byte, c *Content) error {
	switch t {
	case typeText:
		return decodeBlock(raw, c, new(TextContent))
	case typeImage:
		return decodeBlock(raw, c, new(ImageContent))
	case typeAudio:
		return decodeBlock(raw, c, new(AudioContent))
	case typeResourceLink:
		return decodeBlock(raw, c, new(ResourceLink))
	case typeResource:
		return decodeBlock(raw, c, new(EmbeddedResource))
	default:
		*c = &UnknownContent{Type: t, Raw: bytes.Clone(raw)}
		return nil
	}
}

func decodeBlock(raw []byte, c *Content, into Content) error {
	if err := withoutContent.decode(raw, into); err != nil {
		return err
	}
	*c = into
	return nil
}

// contentType returns the type of a block, which must be valid JSON.
func contentType(raw []byte) (string, error) {
	// Most peers send the type first. Then a long block need not be scanned again.
	if rest, ok := bytes.CutPrefix(raw, []byte(`{"type":"`)); ok {
		if end := bytes.IndexByte(rest, '"'); end > 0 && bytes.IndexByte(rest[:end], '\\') < 0 {
			return string(rest[:end]), nil
		}
	}
	var block struct {
		Type string `json:"type"`
	}
	if err := jsonv2.Unmarshal(raw, &block); err != nil {
		return "", fmt.Errorf("content block: %w", err)
	}
	if block.Type == "" {
		return "", errors.New("content block must have a type")
	}
	return block.Type, nil
}
