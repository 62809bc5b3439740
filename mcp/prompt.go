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
	// Source is the JSON that the prompt was decoded from, for programs that forward it. Encoding uses the bytes of
	// Source for everything that the other fields do not change, and keeps what no field represents. Decoding does not
	// set it. The bytes must not be modified.
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

// CompleteParams are the parameters of completion/complete.
type CompleteParams struct {
	ParamsBase

	// Ref is the prompt or resource template of the argument.
	Ref CompleteReference `json:"ref"`
	// Argument is the argument to complete.
	Argument CompleteArgument `json:"argument"`
	// Context are the values of other arguments. Since 2025-06-18.
	Context *CompleteContext `json:"context,omitzero"`
}

// CompleteReference identifies a prompt by name, or a resource template by URI.
type CompleteReference struct {
	// Type is [RefPrompt] or [RefResource].
	Type ReferenceType `json:"type"`
	// Name is the name of the prompt. Prompts only.
	Name string `json:"name,omitempty"`
	// Title is the title of the prompt, for display. Prompts only. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// URI is the URI or URI template of the resource template. Resource templates only.
	URI string `json:"uri,omitempty"`
}

// ReferenceType says whether the argument to complete belongs to a prompt or a resource template.
type ReferenceType string

// Values of [CompleteReference.Type].
const (
	RefPrompt   ReferenceType = "ref/prompt"
	RefResource ReferenceType = "ref/resource"
)

// CompleteArgument is an argument to complete.
type CompleteArgument struct {
	// Name is the name of the argument or template variable.
	Name string `json:"name"`
	// Value is the text that the user has typed so far.
	Value string `json:"value"`
}

// CompleteContext are values that a completion may depend on. Since 2025-06-18.
type CompleteContext struct {
	// Arguments are the other arguments that already have a value, by name.
	Arguments map[string]string `json:"arguments,omitzero"`
}

// CompleteResult is the result of completion/complete.
type CompleteResult struct {
	ResultBase

	// Completion are the proposed values.
	Completion Completion `json:"completion"`
}

// MaxCompletionValues is the maximum number of values in a [Completion].
const MaxCompletionValues = 100

// Completion is a list of proposed values for an argument.
type Completion struct {
	// Values are the proposed values, at most [MaxCompletionValues].
	Values []string `json:"values"`
	// Total is the number of matching values, which may exceed the length of Values. Nil means that
	// it is unknown.
	Total *int64 `json:"total,omitzero"`
	// HasMore reports that there are more matching values than Values contains.
	HasMore bool `json:"hasMore,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (c Completion) MarshalJSON() ([]byte, error) {
	type plain Completion
	return encode((*plain)(&c))
}
