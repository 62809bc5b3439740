package mcp

import (
	"encoding/json"
	"errors"
)

// Prompt is a template for messages to a model, which the user selects.
type Prompt struct {
	// Name identifies the prompt within its server.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Description describes the prompt.
	Description string `json:"description,omitempty"`
	// Arguments are the arguments of the prompt.
	Arguments []PromptArgument `json:"arguments,omitzero"`
	// Icons are icons of the prompt. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// Meta is the metadata of the prompt. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
	// Source is the JSON that the prompt was decoded from, for programs that forward it. Encoding
	// uses the bytes of Source for everything that the other fields do not change, and keeps the
	// members without a field. Decoding does not set it. The bytes must not be modified.
	Source json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (p Prompt) MarshalJSON() ([]byte, error) {
	type plain Prompt
	source := p.Source
	p.Source = nil
	return encodeOver(source, (*plain)(&p))
}

// PromptArgument describes an argument of a prompt.
type PromptArgument struct {
	// Name identifies the argument within its prompt.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Description describes the argument.
	Description string `json:"description,omitempty"`
	// Required reports that the argument must be present.
	Required bool `json:"required,omitzero"`
}

// ListPromptsResult is the result of prompts/list, whose parameters are [PaginatedParams].
type ListPromptsResult struct {
	ResultBase
	CacheHints
	PageInfo

	// Prompts are the prompts of one page.
	Prompts []Prompt `json:"prompts"`
}

// MarshalJSON implements json.Marshaler.
func (r ListPromptsResult) MarshalJSON() ([]byte, error) {
	type plain ListPromptsResult
	return encode((*plain)(&r))
}

// GetPromptParams are the parameters of prompts/get.
type GetPromptParams struct {
	ParamsBase
	InputParams

	// Name is the name of the prompt.
	Name string `json:"name"`
	// Arguments are the values of the arguments, by name.
	Arguments map[string]string `json:"arguments,omitzero"`
}

// GetPromptResult is the result of prompts/get.
type GetPromptResult struct {
	ResultBase

	// Description describes the prompt.
	Description string `json:"description,omitempty"`
	// Messages are the messages for the model.
	Messages []PromptMessage `json:"messages"`
}

// MarshalJSON implements json.Marshaler.
func (r GetPromptResult) MarshalJSON() ([]byte, error) {
	type plain GetPromptResult
	source := r.Source
	r.Source = nil
	return encodeOver(source, (*plain)(&r))
}

// PromptMessage is a message of a prompt.
type PromptMessage struct {
	// Role is the role of the speaker.
	Role Role `json:"role"`
	// Content is the message. It is required. It must not be a [ToolUseContent] or a
	// [ToolResultContent]. It may be a [ResourceLink] since 2025-06-18.
	Content Content `json:"content"`
}

// MarshalJSON implements json.Marshaler.
func (m PromptMessage) MarshalJSON() ([]byte, error) {
	type plain PromptMessage
	if err := checkBlocks([]Content{m.Content}); err != nil {
		return nil, err
	}
	return encode((*plain)(&m))
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *PromptMessage) UnmarshalJSON(data []byte) error {
	type plain PromptMessage
	if err := decode(data, (*plain)(m)); err != nil {
		return err
	}
	if m.Content == nil {
		return errors.New("prompt message must have content")
	}
	return nil
}
