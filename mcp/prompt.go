package mcp

import "errors"

// Prompt is a template for messages that a server offers to users.
type Prompt struct {
	// Name identifies the prompt on its server.
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"` // for people; since 2025-06-18
	Description string           `json:"description,omitempty"`
	Arguments   []PromptArgument `json:"arguments,omitzero"`
	Icons       []Icon           `json:"icons,omitzero"` // since 2025-11-25
	Meta        Meta             `json:"_meta,omitzero"` // since 2025-06-18
}

// PromptArgument describes an argument that a prompt takes.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"` // for people; since 2025-06-18
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitzero"`
}

// ListPromptsResult answers prompts/list, which takes [PaginatedParams].
type ListPromptsResult struct {
	ResultBase
	CacheHints
	PageInfo

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

	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitzero"`
}

// GetPromptResult answers prompts/get.
type GetPromptResult struct {
	ResultBase

	Description string          `json:"description,omitempty"`
	Messages    []PromptMessage `json:"messages"`
}

// MarshalJSON implements json.Marshaler.
func (r GetPromptResult) MarshalJSON() ([]byte, error) {
	type plain GetPromptResult
	return encode((*plain)(&r))
}

// PromptMessage is a message that a prompt is made of.
type PromptMessage struct {
	Role Role `json:"role"`
	// Content is required. It is not about tool use; links to resources are foreseen since 2025-06-18.
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
		return errors.New("prompt message has no content")
	}
	return nil
}
