package mcp

import (
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// CreateMessageParams are the parameters of sampling/createMessage, with which a server asks the
// client to sample from a model. Sampling is deprecated by 2026-07-28; servers call a model provider
// directly.
type CreateMessageParams struct {
	ParamsBase

	Messages         []SamplingMessage `json:"messages"`
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	SystemPrompt     string            `json:"systemPrompt,omitempty"`
	// IncludeContext is [IncludeNone], [IncludeThisServer] or [IncludeAllServers]; empty means none.
	IncludeContext string   `json:"includeContext,omitempty"`
	Temperature    *float64 `json:"temperature,omitzero"`
	// MaxTokens is the most that may be sampled. It must not be exceeded.
	MaxTokens     int64    `json:"maxTokens"`
	StopSequences []string `json:"stopSequences,omitzero"`
	// Metadata is a JSON object in the model provider's own format.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// Tools are what the model may call. Only for clients with [SamplingCapability.Tools]. Since
	// 2025-11-25.
	Tools []Tool `json:"tools,omitzero"`
	// ToolChoice says whether it must. Only for clients with [SamplingCapability.Tools]. Since
	// 2025-11-25.
	ToolChoice *ToolChoice `json:"toolChoice,omitzero"`
	// Task asks for the request to be run as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (p CreateMessageParams) MarshalJSON() ([]byte, error) {
	type plain CreateMessageParams
	return encode((*plain)(&p))
}

// Values of [CreateMessageParams.IncludeContext]. All but [IncludeNone] are deprecated since
// 2025-11-25, and only for clients with [SamplingCapability.Context].
const (
	IncludeNone       = "none"
	IncludeThisServer = "thisServer"
	IncludeAllServers = "allServers"
)

// ModelPreferences are what a server would like the model to be. A client may ignore them. Priorities
// are from 0, unimportant, to 1, most important.
type ModelPreferences struct {
	// Hints come before the priorities; the first that matches is taken.
	Hints                []ModelHint `json:"hints,omitzero"`
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`
}

// ModelHint suggests a model.
type ModelHint struct {
	// Name is a part of the name of a model, or of a family of models.
	Name string `json:"name,omitempty"`
}

// ToolChoice says whether a model may or must call a tool. Since 2025-11-25.
type ToolChoice struct {
	// Mode is [ToolChoiceAuto], [ToolChoiceRequired] or [ToolChoiceNone]; empty means auto.
	Mode string `json:"mode,omitempty"`
}

// Values of [ToolChoice.Mode].
const (
	ToolChoiceAuto     = "auto"     // as the model sees fit
	ToolChoiceRequired = "required" // at least one
	ToolChoiceNone     = "none"     // none
)

// SamplingMessage is a message to or from a model.
type SamplingMessage struct {
	Role Role `json:"role"`
	// Content is one block or, since 2025-11-25, several. One is encoded as an object and any other
	// number as an array.
	Content []Content `json:"content"`
	Meta    Meta      `json:"_meta,omitzero"` // since 2025-11-25
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

// CreateMessageResult answers sampling/createMessage.
type CreateMessageResult struct {
	ResultBase

	Role Role `json:"role"`
	// Content is as in [SamplingMessage].
	Content []Content `json:"content"`
	// Model is the name of the model that answered.
	Model string `json:"model"`
	// StopReason is why it stopped: one of the constants, or another; empty if that is not known.
	StopReason string `json:"stopReason,omitempty"`
}

// Values of [CreateMessageResult.StopReason]. Providers have others.
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

var errNoSamplingContent = errors.New("sampling message has no content")

// oneOrSeveral are blocks of which a single one is encoded as it is, without an array around it.
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
