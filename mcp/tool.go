package mcp

import "encoding/json"

// Tool describes a function of a server that a model can call.
type Tool struct {
	// Name identifies the tool within its server. It should have 1 to 128 letters, digits, underscores,
	// hyphens and dots.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Description describes to a model what the tool does and when to use it.
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON Schema of the arguments. Its type must be "object". Nil is encoded as
	// a schema that accepts any object. The dialect is 2020-12 unless $schema names another one.
	// Until 2025-11-25 the protocol defines only type, properties and required.
	InputSchema json.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON Schema of [CallToolResult.StructuredContent]. Its type must be
	// "object" until 2025-11-25. Since 2025-06-18.
	OutputSchema json.RawMessage `json:"outputSchema,omitzero"`
	// Annotations are hints about the behaviour of the tool. Since 2025-03-26.
	Annotations *ToolAnnotations `json:"annotations,omitzero"`
	// Execution tells whether the tool can be called as a task. 2025-11-25 only.
	Execution *ToolExecution `json:"execution,omitzero"`
	// Icons are icons of the tool. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// Meta is the metadata of the tool. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
	// Source is the JSON that the tool was decoded from, for programs that forward it. Encoding
	// uses the bytes of Source for everything that the other fields do not change, and keeps the
	// members without a field. Decoding does not set it. The bytes must not be modified.
	Source json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (t Tool) MarshalJSON() ([]byte, error) {
	type plain Tool
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	source := t.Source
	t.Source = nil
	return encodeOver(source, (*plain)(&t))
}

// ToolAnnotations are hints about the behaviour of a tool. Do not rely on them unless the server is
// trusted. Since 2025-03-26.
type ToolAnnotations struct {
	// Title is the name for display. [Tool.Title] takes precedence.
	Title string `json:"title,omitempty"`
	// ReadOnlyHint means that the tool does not modify its environment.
	ReadOnlyHint bool `json:"readOnlyHint,omitzero"`
	// DestructiveHint means that the tool may delete or overwrite data. Nil means true. Ignored if
	// ReadOnlyHint is true.
	DestructiveHint *bool `json:"destructiveHint,omitzero"`
	// IdempotentHint means that repeating a call with the same arguments has no further effect.
	// Ignored if ReadOnlyHint is true.
	IdempotentHint bool `json:"idempotentHint,omitzero"`
	// OpenWorldHint means that the tool interacts with external entities, such as the web. Nil means
	// true.
	OpenWorldHint *bool `json:"openWorldHint,omitzero"`
}

// ToolExecution tells whether a tool can be called as a task. 2025-11-25 only.
type ToolExecution struct {
	// TaskSupport is [TaskForbidden], [TaskOptional] or [TaskRequired]. Empty means forbidden.
	TaskSupport string `json:"taskSupport,omitempty"`
}

// Values of [ToolExecution.TaskSupport].
const (
	TaskForbidden = "forbidden"
	TaskOptional  = "optional"
	TaskRequired  = "required"
)

// ListToolsResult is the result of tools/list, whose parameters are [PaginatedParams].
type ListToolsResult struct {
	ResultBase
	CacheHints
	PageInfo

	// Tools are the tools of one page.
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

	// Name is the name of the tool.
	Name string `json:"name"`
	// Arguments are the arguments, a JSON object. Nil means none.
	Arguments json.RawMessage `json:"arguments,omitzero"`
	// Task requests that the server run the call as a task. 2025-11-25 only.
	Task *TaskMetadata `json:"task,omitzero"`
}

// CallToolResult is the result of tools/call.
type CallToolResult struct {
	ResultBase

	// Content is the result for the model.
	Content []Content `json:"content"`
	// StructuredContent is the result as JSON. It matches the output schema of the tool, if there is
	// one. It must be an object until 2025-11-25 and may be any JSON value since 2026-07-28. Since
	// 2025-06-18.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError reports that the tool failed. Content describes the error to the model.
	IsError bool `json:"isError,omitzero"`
}

// MarshalJSON implements json.Marshaler. Calling it directly is faster than calling it through a JSON
// library, which scans the output again.
func (r CallToolResult) MarshalJSON() ([]byte, error) {
	type plain CallToolResult
	if err := checkBlocks(r.Content); err != nil {
		return nil, err
	}
	source := r.Source
	r.Source = nil
	return encodeOver(source, (*plain)(&r))
}
