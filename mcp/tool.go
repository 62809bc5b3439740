package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

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
	// OutputSchema is the JSON Schema of [CallToolResult.StructuredContent]. Its type must be "object" until
	// 2025-11-25; for older clients, servers wrap other types into an object with the property "result". Since
	// 2025-06-18.
	OutputSchema json.RawMessage `json:"outputSchema,omitzero"`
	// Annotations are hints about the behaviour of the tool. Since 2025-03-26.
	Annotations *ToolAnnotations `json:"annotations,omitzero"`
	// Execution tells whether the tool can be called as a task. 2025-11-25 only.
	Execution *ToolExecution `json:"execution,omitzero"`
	// Icons are icons of the tool. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// Meta is the metadata of the tool. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
	// Source is the JSON that the tool was decoded from, for programs that forward it. Encoding uses the bytes of
	// Source for everything that the other fields do not change, and keeps what no field represents. Decoding does not
	// set it. The bytes must not be modified.
	Source json.RawMessage `json:"-"`
}

// VisibleTo reports whether a host may offer t to its model ("model"), or call it for a page of the same server
// ("app"). The field visibility of _meta.ui decides (MCP Apps 2026-01-26, Visibility): without it, the tool is visible
// to both; if it is invalid, to neither. A page must never call tools of another server.
func (t *Tool) VisibleTo(who string) bool {
	var ui struct {
		Visibility json.RawMessage `json:"visibility"`
	}
	if _, err := t.Meta.Get("ui", &ui); err != nil || ui.Visibility == nil {
		return true
	}
	var names []string
	return decode(ui.Visibility, &names) == nil && (names == nil || slices.Contains(names, who))
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
	TaskSupport TaskSupport `json:"taskSupport,omitempty"`
}

// TaskSupport says whether a tool runs as a task.
type TaskSupport string

// Values of [ToolExecution.TaskSupport].
const (
	TaskForbidden TaskSupport = "forbidden"
	TaskOptional  TaskSupport = "optional"
	TaskRequired  TaskSupport = "required"
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

// UnmarshalJSON implements json.Unmarshaler. Calling it directly is faster than calling it through
// a JSON library, which scans the input first.
func (r *CallToolResult) UnmarshalJSON(data []byte) error {
	type plain CallToolResult
	if r.isZero() && r.decodeTokens(data) {
		return nil
	}
	return decode(data, (*plain)(r))
}

func (r *CallToolResult) isZero() bool {
	return r.Content == nil && r.StructuredContent == nil && !r.IsError && r.Meta == nil && r.ResultType == ""
}

// Limits of the input of decodeTokens. The JSON library decodes larger input.
const (
	maxScanDepth   = 128
	maxScanMembers = 10_000
	maxScanTokens  = 100_000
	maxScanBytes   = 1 << 30 // offsets are 32 bits
)

// tokens is a document that decodes one result.
type tokens struct{ jsonscan.Document }

var tokenPool = sync.Pool{New: func() any { return new(tokens) }}

// maxPooledTokens keeps the memory of rare large documents out of the pool.
const maxPooledTokens = 1 << 12

// decodeTokens decodes a result in one scan. It returns false and does not change r if the input is invalid or
// unusual: then the JSON library, which scans each level of the result again, decides. With that library alone, a
// call from our client to our server takes 16 % longer in memory; over HTTP, it takes 18 % longer in 2026-07-28
// and 5 % longer in 2025-11-25.
func (r *CallToolResult) decodeTokens(data []byte) bool {
	if len(data) > maxScanBytes {
		return false
	}
	t := tokenPool.Get().(*tokens)
	t.Raw = data
	out, ok := t.result(&jsonscan.Scanner{MaxDepth: maxScanDepth, MaxMembers: maxScanMembers, MaxTokens: maxScanTokens})
	if t.Reset(); t.Size() <= maxPooledTokens {
		tokenPool.Put(t)
	}
	if ok {
		*r = out
	}
	return ok
}

func (t *tokens) result(s *jsonscan.Scanner) (r CallToolResult, ok bool) {
	if !t.Scan(s, 0) || t.Tokens[0].Kind != jsonscan.KindObject {
		return r, false
	}
	for name, value := range t.members(0) {
		kind := t.Tokens[value].Kind
		switch {
		case !t.Tokens[name].Plain:
			return r, false
		case t.is(name, "content"):
			if r.Content, ok = t.content(value); !ok {
				return r, false
			}
		case t.is(name, "structuredContent"):
			r.StructuredContent = bytes.Clone(t.Bytes(value))
		case t.is(name, "isError"):
			if kind != jsonscan.KindBoolean {
				return r, false
			}
			r.IsError = t.Bytes(value)[0] == 't'
		case t.is(name, "resultType"):
			if kind != jsonscan.KindString {
				return r, false
			}
			r.ResultType = t.string(value)
		case t.is(name, "_meta"):
			if kind != jsonscan.KindObject {
				return r, false
			}
			r.Meta = t.meta(value)
		}
	}
	return r, true
}

// content decodes an array of blocks.
func (t *tokens) content(at uint32) ([]Content, bool) {
	if t.Tokens[at].Kind != jsonscan.KindArray {
		return nil, false
	}
	blocks := make([]Content, 0, t.Tokens[at].Count)
	for i := at + 1; i < t.Tokens[at].Next; i = t.Tokens[i].Next {
		block := t.text(i)
		if block == nil {
			if err := decodeAnyBlock(t.Bytes(i), &block); err != nil {
				return nil, false
			}
		}
		blocks = append(blocks, block)
	}
	return blocks, true
}

// text decodes a text block without annotations. It returns nil for other blocks.
func (t *tokens) text(at uint32) Content {
	if t.Tokens[at].Kind != jsonscan.KindObject {
		return nil
	}
	var isText bool
	block := new(TextContent)
	for name, value := range t.members(at) {
		if t.Tokens[value].Kind != jsonscan.KindString {
			return nil
		}
		switch {
		case t.is(name, "type"):
			isText = t.is(value, typeText)
		case t.is(name, "text"):
			block.Text = t.string(value)
		default:
			return nil
		}
	}
	if !isText {
		return nil
	}
	return block
}

func (t *tokens) meta(at uint32) Meta {
	meta := make(Meta, t.Tokens[at].Count)
	for name, value := range t.members(at) {
		meta[t.string(name)] = json.RawMessage(bytes.Clone(t.Bytes(value)))
	}
	return meta
}

// members yields the tokens of the keys and values of an object.
func (t *tokens) members(at uint32) func(yield func(name, value uint32) bool) {
	return func(yield func(name, value uint32) bool) {
		for i := at + 1; i < t.Tokens[at].Next; i = t.Tokens[i+1].Next {
			if !yield(i, i+1) {
				return
			}
		}
	}
}

// is reports whether a string token contains no escapes and has this text.
func (t *tokens) is(at uint32, text string) bool {
	token := &t.Tokens[at]
	return token.Plain && string(t.Raw[token.Start:token.End]) == text
}

// string returns the text of a string token, which is not a view of the input.
func (t *tokens) string(at uint32) string {
	if t.Tokens[at].Plain {
		return strings.Clone(t.Text(at))
	}
	return t.Text(at)
}
