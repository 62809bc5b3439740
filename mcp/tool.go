package mcp

import "encoding/json"

// Tool is a function that a server offers to models.
type Tool struct {
	// Name identifies the tool on its server.
	Name  string `json:"name"`
	Title string `json:"title,omitempty"` // for people; since 2025-06-18
	// Description tells a model what the tool does and when to use it.
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON Schema of the arguments: an object whose type is "object". Nil is
	// encoded as one that takes any object. Without $schema its dialect is 2020-12. Until 2025-11-25
	// only properties and required were foreseen beside type.
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of [CallToolResult.StructuredContent]. Since 2025-06-18; its
	// type had to be "object" until 2025-11-25.
	OutputSchema json.RawMessage  `json:"outputSchema,omitzero"`
	Annotations  *ToolAnnotations `json:"annotations,omitzero"` // since 2025-03-26
	Execution    *ToolExecution   `json:"execution,omitzero"`   // 2025-11-25 only
	Icons        []Icon           `json:"icons,omitzero"`       // since 2025-11-25
	Meta         Meta             `json:"_meta,omitzero"`       // since 2025-06-18
}

// MarshalJSON implements json.Marshaler.
func (t Tool) MarshalJSON() ([]byte, error) {
	type plain Tool
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	return encode((*plain)(&t))
}

// ToolAnnotations are hints about what a tool does. They are not to be relied on unless the server
// is trusted. Since 2025-03-26.
type ToolAnnotations struct {
	// Title is for people; [Tool.Title] comes before it.
	Title string `json:"title,omitempty"`
	// ReadOnlyHint: the tool changes nothing.
	ReadOnlyHint bool `json:"readOnlyHint,omitzero"`
	// DestructiveHint: the tool may destroy something, rather than only add. Nil means true. It has
	// no meaning for read-only tools.
	DestructiveHint *bool `json:"destructiveHint,omitzero"`
	// IdempotentHint: a second call with the same arguments changes nothing more. It has no meaning
	// for read-only tools.
	IdempotentHint bool `json:"idempotentHint,omitzero"`
	// OpenWorldHint: the tool deals with things outside, such as the web. Nil means true.
	OpenWorldHint *bool `json:"openWorldHint,omitzero"`
}

// ToolExecution says how a tool may be called. 2025-11-25 only.
type ToolExecution struct {
	// TaskSupport is [TaskForbidden], [TaskOptional] or [TaskRequired]; empty means forbidden.
	TaskSupport string `json:"taskSupport,omitempty"`
}

// Values of [ToolExecution.TaskSupport].
const (
	TaskForbidden = "forbidden"
	TaskOptional  = "optional"
	TaskRequired  = "required"
)

// ListToolsResult answers tools/list, which takes [PaginatedParams].
type ListToolsResult struct {
	ResultBase
	CacheHints
	PageInfo

	Tools []Tool `json:"tools"`
}

// MarshalJSON implements json.Marshaler.
func (r ListToolsResult) MarshalJSON() ([]byte, error) {
	type plain ListToolsResult
	return encode((*plain)(&r))
}

// CallToolParams are the parameters of tools/call.
type CallToolParams struct {
	ParamsBase
	InputParams

	Name string `json:"name"`
	// Arguments are a JSON object, or nil for none.
	Arguments json.RawMessage `json:"arguments,omitzero"`
	// Task asks for the call to be run as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// CallToolResult answers tools/call.
type CallToolResult struct {
	ResultBase

	Content []Content `json:"content"`
	// StructuredContent is the result as data, which fits the tool's output schema if it has one.
	// Since 2025-06-18: an object until 2025-11-25, any JSON value since.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError: the tool failed, and the content tells the model why.
	IsError bool `json:"isError,omitzero"`
}

// MarshalJSON implements json.Marshaler. Called directly it writes the result once; through a JSON
// library its output is scanned again.
func (r CallToolResult) MarshalJSON() ([]byte, error) {
	type plain CallToolResult
	if err := checkBlocks(r.Content); err != nil {
		return nil, err
	}
	return encode((*plain)(&r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *CallToolResult) UnmarshalJSON(data []byte) error {
	type plain CallToolResult
	return decode(data, (*plain)(r))
}
