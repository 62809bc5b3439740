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

// The values of the type member of content blocks.
const (
	typeText         = "text"
	typeImage        = "image"
	typeAudio        = "audio"
	typeResourceLink = "resource_link"
	typeResource     = "resource"
	typeToolUse      = "tool_use"
	typeToolResult   = "tool_result"
)

// The fields of each block, under a type without methods: encoding it does not come back here. They are
// embedded as Go embeds, since the JSON library's tag option for that goes by different names in this
// library and in the standard library's copy of it.
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
		return nil, fmt.Errorf("content block of unknown type %q has no Raw", c.Type)
	}
	return c.Raw, nil
}

// checkBlocks returns an error if a block is nil. The JSON library would make null of it without asking
// encodeContent.
func checkBlocks(blocks []Content) error {
	for i, c := range blocks {
		if c == nil || reflect.ValueOf(c).IsNil() {
			return fmt.Errorf("content block %d is nil", i)
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

// UnmarshalJSON implements json.Unmarshaler. It does not look at the type member.
func (c *ToolResultContent) UnmarshalJSON(data []byte) error {
	return jsonv2.Unmarshal(data, (*toolResultFields)(c), decodeToolResultOptions)
}

// UnmarshalJSON implements json.Unmarshaler. It takes a block of any type, known or not.
func (c *UnknownContent) UnmarshalJSON(data []byte) error {
	t, err := contentType(data)
	if err != nil {
		return err
	}
	*c = UnknownContent{Type: t, Raw: bytes.Clone(data)}
	return nil
}

// encodeContent writes a block straight to enc. Without it each block would be encoded by its
// MarshalJSON method, and then scanned and copied once more.
func encodeContent(enc *jsontext.Encoder, c Content) error {
	v, err := c.wire()
	if err != nil {
		return err
	}
	return jsonv2.MarshalEncode(enc, v)
}

// decodeContent reads a block of any type.
func decodeContent(dec *jsontext.Decoder, c *Content) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
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
		return decodeBlockOf(t, raw, c)
	}
}

// decodeToolResultOptions decode the content of a tool result. It has no blocks about tools, which
// also keeps decoding from going deeper than this one level.
var decodeToolResultOptions = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(
	func(dec *jsontext.Decoder, c *Content) error {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		t, err := contentType(raw)
		if err != nil {
			return err
		}
		return decodeBlockOf(t, raw, c)
	},
))

// decodeBlockOf decodes a block that is not about tools. raw belongs to the decoder.
func decodeBlockOf(t string, raw []byte, c *Content) error {
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
	if err := jsonv2.Unmarshal(raw, into); err != nil {
		return err
	}
	*c = into
	return nil
}

// contentType returns the type member of a block, which is valid JSON.
func contentType(raw []byte) (string, error) {
	// Most peers send it first, and then a long block need not be scanned once more.
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
		return "", errors.New("content block has no type")
	}
	return block.Type, nil
}
