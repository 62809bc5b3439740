package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Supported declares a capability that has no settings of its own: the empty object. In a
// capabilities struct nil is "not declared" and &Supported{} is "declared".
type Supported struct{}

// ClientCapabilities are what a client can do for a server: told once in the handshake until
// 2025-11-25, and with every request since. Capabilities that have no field here are dropped when
// decoding; those of an application's own belong under Experimental or Extensions.
type ClientCapabilities struct {
	// Experimental are non-standard capabilities: objects by name.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Roots: the client answers roots/list. Deprecated by 2026-07-28 in favour of tool parameters,
	// resource URIs or server configuration.
	Roots *RootsCapability `json:"roots,omitzero"`
	// Sampling: the client answers sampling/createMessage. Deprecated by 2026-07-28 in favour of
	// calling a model provider directly.
	Sampling *SamplingCapability `json:"sampling,omitzero"`
	// Elicitation: the client answers elicitation/create. Since 2025-06-18.
	Elicitation *ElicitationCapability `json:"elicitation,omitzero"`
	// Tasks: the client runs some requests as tasks. 2025-11-25 only.
	Tasks *TasksCapability `json:"tasks,omitzero"`
	// Extensions are the settings, objects, of supported extensions by identifier, such as
	// [ExtensionTasks]. Since 2026-07-28.
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
}

// RootsCapability is the client's capability to list its roots.
type RootsCapability struct {
	// ListChanged: the client sends notifications/roots/list_changed. Until 2025-11-25.
	ListChanged bool `json:"listChanged,omitzero"`
}

// SamplingCapability is the client's capability to sample from a model.
type SamplingCapability struct {
	// Context: the client honours [CreateMessageParams.IncludeContext]. Since 2025-11-25.
	Context *Supported `json:"context,omitzero"`
	// Tools: the client accepts [CreateMessageParams.Tools]. Since 2025-11-25.
	Tools *Supported `json:"tools,omitzero"`
}

// ElicitationCapability is the client's capability to ask its user. With neither member it stands
// for forms only, as it did in 2025-06-18.
type ElicitationCapability struct {
	Form *Supported `json:"form,omitzero"` // since 2025-11-25
	URL  *Supported `json:"url,omitzero"`  // since 2025-11-25
}

// SupportsForm reports whether forms may be asked for; a nil c supports nothing.
func (c *ElicitationCapability) SupportsForm() bool {
	return c != nil && (c.Form != nil || c.URL == nil)
}

// SupportsURL reports whether the user may be sent to a URL; a nil c supports nothing.
func (c *ElicitationCapability) SupportsURL() bool {
	return c != nil && c.URL != nil
}

// ServerCapabilities are what a server offers: told in the handshake until 2025-11-25 and by
// server/discover since. Capabilities that have no field here are dropped when decoding.
type ServerCapabilities struct {
	// Experimental are non-standard capabilities: objects by name.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Logging: the server sends log messages. Deprecated by 2026-07-28 in favour of stderr and
	// OpenTelemetry.
	Logging *Supported `json:"logging,omitzero"`
	// Completions: the server answers completion/complete. Since 2025-03-26.
	Completions *Supported           `json:"completions,omitzero"`
	Prompts     *PromptsCapability   `json:"prompts,omitzero"`
	Resources   *ResourcesCapability `json:"resources,omitzero"`
	Tools       *ToolsCapability     `json:"tools,omitzero"`
	// Tasks: the server runs some requests as tasks. 2025-11-25 only.
	Tasks *TasksCapability `json:"tasks,omitzero"`
	// Extensions are the settings, objects, of supported extensions by identifier, such as
	// [ExtensionTasks]. Since 2026-07-28.
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
}

// PromptsCapability is the server's capability to offer prompts.
type PromptsCapability struct {
	// ListChanged: the server sends notifications/prompts/list_changed.
	ListChanged bool `json:"listChanged,omitzero"`
}

// ResourcesCapability is the server's capability to offer resources.
type ResourcesCapability struct {
	// Subscribe: the server sends notifications/resources/updated for what is subscribed to.
	Subscribe bool `json:"subscribe,omitzero"`
	// ListChanged: the server sends notifications/resources/list_changed.
	ListChanged bool `json:"listChanged,omitzero"`
}

// ToolsCapability is the server's capability to offer tools.
type ToolsCapability struct {
	// ListChanged: the server sends notifications/tools/list_changed.
	ListChanged bool `json:"listChanged,omitzero"`
}

// TasksCapability says which requests a peer runs as tasks when asked to. 2025-11-25 only; the tasks
// extension is declared under Extensions instead.
type TasksCapability struct {
	List     *Supported              `json:"list,omitzero"`   // the peer answers tasks/list
	Cancel   *Supported              `json:"cancel,omitzero"` // the peer answers tasks/cancel
	Requests *TaskRequestsCapability `json:"requests,omitzero"`
}

// TaskRequestsCapability names the requests that may become tasks. Nothing else may.
type TaskRequestsCapability struct {
	Tools       *TaskToolsCapability       `json:"tools,omitzero"`       // of servers
	Sampling    *TaskSamplingCapability    `json:"sampling,omitzero"`    // of clients
	Elicitation *TaskElicitationCapability `json:"elicitation,omitzero"` // of clients
}

// TaskToolsCapability names the requests about tools that may become tasks.
type TaskToolsCapability struct {
	Call *Supported `json:"call,omitzero"` // tools/call
}

// TaskSamplingCapability names the sampling requests that may become tasks.
type TaskSamplingCapability struct {
	CreateMessage *Supported `json:"createMessage,omitzero"` // sampling/createMessage
}

// TaskElicitationCapability names the elicitation requests that may become tasks.
type TaskElicitationCapability struct {
	Create *Supported `json:"create,omitzero"` // elicitation/create
}

// ExtensionTasks identifies the tasks extension in [ClientCapabilities] and [ServerCapabilities]. Its
// settings are the empty object.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// ValidExtensionID returns nil if id can identify an extension: it follows the grammar of _meta keys
// and has a prefix.
func ValidExtensionID(id string) error {
	if !strings.Contains(id, "/") {
		return fmt.Errorf("invalid extension identifier %q: %w", id, errNoPrefix)
	}
	if err := ValidMetaKey(id); err != nil {
		return fmt.Errorf("invalid extension identifier: %w", err)
	}
	return nil
}

var errNoPrefix = errors.New("it needs a prefix, such as com.example/")
