package mcp

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// CreateMessageParams are the parameters of sampling/createMessage, with which a server asks the
// client to sample from a model.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type CreateMessageParams struct {
	ParamsBase

	// Messages are the conversation so far.
	Messages []SamplingMessage `json:"messages"`
	// ModelPreferences are preferences for the choice of the model.
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	// SystemPrompt is the system prompt. The client may change or ignore it.
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// IncludeContext is [IncludeNone], [IncludeThisServer] or [IncludeAllServers]. Empty means none.
	IncludeContext IncludeContext `json:"includeContext,omitempty"`
	// Temperature is the sampling temperature. Nil means the default of the client.
	Temperature *float64 `json:"temperature,omitzero"`
	// MaxTokens is the maximum number of tokens to sample. The client must not exceed it.
	MaxTokens int64 `json:"maxTokens"`
	// StopSequences are texts that end the sampling.
	StopSequences []string `json:"stopSequences,omitzero"`
	// Metadata is a JSON object in the format of the model provider.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// Tools are the tools that the model may use. Requires [SamplingCapability.Tools]. Since
	// 2025-11-25.
	Tools []Tool `json:"tools,omitzero"`
	// ToolChoice tells whether the model must use a tool. Requires [SamplingCapability.Tools]. Since
	// 2025-11-25.
	ToolChoice *ToolChoice `json:"toolChoice,omitzero"`
	// Task requests that the client run the request as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (p CreateMessageParams) MarshalJSON() ([]byte, error) {
	type plain CreateMessageParams
	return encode((*plain)(&p))
}

// IncludeContext says from which servers a client adds context to a prompt.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type IncludeContext string

// IncludeNone is the only value of [CreateMessageParams.IncludeContext] that every client supports.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
const IncludeNone IncludeContext = "none"

// Values of [CreateMessageParams.IncludeContext] that require [SamplingCapability.Context].
//
// Deprecated: 2025-11-25 deprecates these values (SEP-2596). They are removed with sampling, at the
// earliest in the first revision from 2027-07-28 on. Leave IncludeContext empty.
const (
	IncludeThisServer IncludeContext = "thisServer"
	IncludeAllServers IncludeContext = "allServers"
)

// ModelPreferences are preferences of a server for the choice of a model. A client may ignore them.
// Priorities range from 0 (unimportant) to 1 (most important).
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type ModelPreferences struct {
	// Hints suggest models, in the order of preference. They take precedence over the priorities.
	Hints []ModelHint `json:"hints,omitzero"`
	// CostPriority is the priority of low cost.
	CostPriority *float64 `json:"costPriority,omitzero"`
	// SpeedPriority is the priority of low latency.
	SpeedPriority *float64 `json:"speedPriority,omitzero"`
	// IntelligencePriority is the priority of capable models.
	IntelligencePriority *float64 `json:"intelligencePriority,omitzero"`
}

// ModelHint suggests a model.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type ModelHint struct {
	// Name is a part of the name of a model or model family.
	Name string `json:"name,omitempty"`
}

// ToolChoice tells whether a model may or must use a tool. Since 2025-11-25.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type ToolChoice struct {
	// Mode is [ToolChoiceAuto], [ToolChoiceRequired] or [ToolChoiceNone]. Empty means auto.
	Mode ToolChoiceMode `json:"mode,omitempty"`
}

// ToolChoiceMode says whether a model may or must use a tool.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type ToolChoiceMode string

// Values of [ToolChoice.Mode].
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
const (
	ToolChoiceAuto     ToolChoiceMode = "auto"     // the model decides
	ToolChoiceRequired ToolChoiceMode = "required" // the model must use at least one tool
	ToolChoiceNone     ToolChoiceMode = "none"     // the model must not use a tool
)

// SamplingMessage is a message to or from a model.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type SamplingMessage struct {
	// Role is the role of the speaker.
	Role Role `json:"role"`
	// Content is one block or, since 2025-11-25, several. A single block is encoded as an object,
	// any other number as an array.
	Content []Content `json:"content"`
	// Meta is the metadata of the message. Since 2025-11-25.
	Meta Meta `json:"_meta,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (m SamplingMessage) MarshalJSON() ([]byte, error) {
	return encode(&samplingMessageJSON{m.Role, m.Content, m.Meta})
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *SamplingMessage) UnmarshalJSON(data []byte) error {
	var wire samplingMessageJSON
	if err := decode(data, &wire); err != nil {
		return err
	}
	if wire.Content == nil {
		return errNoSamplingContent
	}
	*m = SamplingMessage{wire.Role, wire.Content, wire.Meta}
	return nil
}

type samplingMessageJSON struct {
	Role    Role         `json:"role"`
	Content oneOrSeveral `json:"content"`
	Meta    Meta         `json:"_meta,omitzero"`
}

// CreateMessageResult is the result of sampling/createMessage.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type CreateMessageResult struct {
	ResultBase

	// Role is the role of the speaker, usually [RoleAssistant].
	Role Role `json:"role"`
	// Content is the message of the model, encoded as in [SamplingMessage].
	Content []Content `json:"content"`
	// Model is the name of the model.
	Model string `json:"model"`
	// StopReason is the reason why the sampling ended. It is one of the Stop constants or a value of
	// the model provider. Empty means unknown.
	StopReason string `json:"stopReason,omitempty"`
}

// Values of [CreateMessageResult.StopReason]. Model providers define others.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
const (
	StopEndTurn   = "endTurn"
	StopSequence  = "stopSequence"
	StopMaxTokens = "maxTokens"
	StopToolUse   = "toolUse" // since 2025-11-25
)

// MarshalJSON implements json.Marshaler.
func (r CreateMessageResult) MarshalJSON() ([]byte, error) {
	return encode(&createMessageResultJSON{r.ResultBase, r.Role, r.Content, r.Model, r.StopReason})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *CreateMessageResult) UnmarshalJSON(data []byte) error {
	var wire createMessageResultJSON
	if err := decode(data, &wire); err != nil {
		return err
	}
	if wire.Content == nil {
		return errNoSamplingContent
	}
	*r = CreateMessageResult{wire.ResultBase, wire.Role, wire.Content, wire.Model, wire.StopReason}
	return nil
}

type createMessageResultJSON struct {
	ResultBase
	Role       Role         `json:"role"`
	Content    oneOrSeveral `json:"content"`
	Model      string       `json:"model"`
	StopReason string       `json:"stopReason,omitempty"`
}

var errNoSamplingContent = errors.New("sampling message must have content")

// oneOrSeveral contains content blocks. A single block is encoded without an array.
type oneOrSeveral []Content

func (c oneOrSeveral) MarshalJSON() ([]byte, error) {
	if err := checkBlocks(c); err != nil {
		return nil, err
	}
	if len(c) == 1 {
		return encode(&c[0])
	}
	return encode([]Content(c))
}

func (c *oneOrSeveral) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() == '[' {
		return decode(data, (*[]Content)(c))
	}
	one := make([]Content, 1)
	if err := decode(data, &one[0]); err != nil {
		return err
	}
	*c = one
	return nil
}

// UsesTools reports whether the request requires [SamplingCapability.Tools]: it has tools, or its
// messages contain tool uses or tool results.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
func (p *CreateMessageParams) UsesTools() bool {
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		return true
	}
	for i := range p.Messages {
		if p.Messages[i].usesTools() {
			return true
		}
	}
	return false
}

// CheckToolResults returns nil if every tool use in a conversation has a result. A message of the
// assistant with [ToolUseContent] must be followed by a message of the user that contains exactly one
// [ToolResultContent] for each tool use and nothing else (2025-11-25 and 2026-07-28, client/sampling,
// Message Content Constraints). A client returns jsonrpc.CodeInvalidParams for other conversations.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
func CheckToolResults(messages []SamplingMessage) error {
	var open map[string]bool // the tool uses of the previous message; true: it has a result
	for i := range messages {
		m := &messages[i]
		if err := m.checkResults(open); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		var err error
		if open, err = m.toolUses(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("message %d: a message with the results of its tool uses must follow", len(messages)-1)
	}
	return nil
}

// checkResults checks the tool results of a message. open are the tool uses of the previous message.
func (m *SamplingMessage) checkResults(open map[string]bool) error {
	results := 0
	for _, c := range m.Content {
		result, ok := c.(*ToolResultContent)
		if !ok {
			continue
		}
		results++
		switch answered, known := open[result.ToolUseID]; {
		case m.Role != RoleUser:
			return fmt.Errorf("tool results must have the role user, got %q", m.Role)
		case !known:
			return fmt.Errorf("tool result %.64q must match a tool use in the previous message", result.ToolUseID)
		case answered:
			return fmt.Errorf("tool use %.64q must have only one result", result.ToolUseID)
		}
		open[result.ToolUseID] = true
	}
	switch {
	case results > 0 && results < len(m.Content):
		return errors.New("tool results must not be mixed with other content: use another message for it")
	case results < len(open):
		for id, answered := range open {
			if !answered {
				return fmt.Errorf("tool use %.64q of the previous message must have a result", id)
			}
		}
	}
	return nil
}

// toolUses returns the ids of the tool uses of a message. The values are false.
func (m *SamplingMessage) toolUses() (map[string]bool, error) {
	var uses map[string]bool
	for _, c := range m.Content {
		use, ok := c.(*ToolUseContent)
		if !ok {
			continue
		}
		if m.Role != RoleAssistant {
			return nil, fmt.Errorf("tool uses must have the role assistant, got %q", m.Role)
		}
		if uses == nil {
			uses = make(map[string]bool)
		}
		if _, duplicate := uses[use.ID]; duplicate {
			return nil, fmt.Errorf("the id of a tool use must be unique: %.64q occurs twice", use.ID)
		}
		uses[use.ID] = false
	}
	return uses, nil
}

func (m *SamplingMessage) usesTools() bool {
	for _, c := range m.Content {
		switch c.(type) {
		case *ToolUseContent, *ToolResultContent:
			return true
		}
	}
	return false
}
