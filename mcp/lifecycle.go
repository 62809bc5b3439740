package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Revision is a revision of the protocol, identified by its date. A peer may send unknown values. A
// later revision is greater, compared as a string.
type Revision string

// The revisions of the protocol.
const (
	V20241105 Revision = "2024-11-05"
	V20250326 Revision = "2025-03-26"
	V20250618 Revision = "2025-06-18"
	V20251125 Revision = "2025-11-25"
	V20260728 Revision = "2026-07-28"

	// Latest is the latest revision.
	Latest = V20260728
	// LatestLegacy is the latest revision with sessions and the initialize handshake.
	LatestLegacy = V20251125
)

// Revisions returns all known revisions, latest first. The caller owns the slice.
func Revisions() []Revision {
	return []Revision{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// Known reports whether r is one of [Revisions].
func (r Revision) Known() bool {
	return slices.Contains(Revisions(), r)
}

// Modern reports whether r is 2026-07-28 or later, which have neither sessions nor a handshake. An
// unknown revision is classified by its date.
func (r Revision) Modern() bool {
	return r >= V20260728
}

// Implementation describes a server or client program. It is not verified: use it for display and
// logs only, never for decisions about behaviour or security.
type Implementation struct {
	// Name identifies the program.
	Name string `json:"name"`
	// Title is the name for display. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// Version is the version of the program.
	Version string `json:"version"`
	// Description describes the program. Since 2025-11-25.
	Description string `json:"description,omitempty"`
	// Icons are icons of the program. Since 2025-11-25.
	Icons Icons `json:"icons,omitzero"`
	// WebsiteURL is the website of the program. Since 2025-11-25.
	WebsiteURL string `json:"websiteUrl,omitempty"`
}

// InitializeParams are the parameters of initialize, the first request of a session. Until
// 2025-11-25.
type InitializeParams struct {
	ParamsBase

	// ProtocolVersion is the latest revision that the client supports.
	ProtocolVersion Revision `json:"protocolVersion"`
	// Capabilities are the capabilities of the client.
	Capabilities ClientCapabilities `json:"capabilities"`
	// ClientInfo describes the client.
	ClientInfo Implementation `json:"clientInfo"`
}

// InitializeResult is the result of initialize. Until 2025-11-25.
type InitializeResult struct {
	ResultBase

	// ProtocolVersion is the revision of the session: the requested one, or another one that the server supports. A
	// client that does not support it disconnects.
	ProtocolVersion Revision `json:"protocolVersion"`
	// Capabilities are the capabilities of the server.
	Capabilities ServerCapabilities `json:"capabilities"`
	// ServerInfo describes the server.
	ServerInfo Implementation `json:"serverInfo"`
	// Instructions describe to a model how to use the server.
	Instructions string `json:"instructions,omitempty"`
}

// DiscoverResult is the result of server/discover, whose parameters are [EmptyParams]. Since
// 2026-07-28.
type DiscoverResult struct {
	ResultBase
	CacheHints

	// SupportedVersions are the revisions that the server supports. The client may not know some of
	// them.
	SupportedVersions []string `json:"supportedVersions"`
	// Capabilities are the capabilities of the server.
	Capabilities ServerCapabilities `json:"capabilities"`
	// Instructions describe to a model how to use the server.
	Instructions string `json:"instructions,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r DiscoverResult) MarshalJSON() ([]byte, error) {
	type plain DiscoverResult
	return encode((*plain)(&r))
}

// CancelledParams are the parameters of notifications/cancelled.
type CancelledParams struct {
	ParamsBase

	// RequestID is the id of the cancelled request. The request was sent by the sender of the
	// notification, except that a server uses the notification to end a subscriptions/listen
	// request. It may be absent in 2025-11-25, for the cancellation of a task.
	RequestID jsonrpc.ID `json:"requestId,omitzero"`
	// Reason is the reason, for logs and display.
	Reason string `json:"reason,omitempty"`
}

// Supported declares a capability that has no settings. On the wire it is the empty object. A nil
// *Supported means that the capability is not declared.
type Supported struct{}

// ClientCapabilities declares what a client supports. Until 2025-11-25 the client sends it once, in
// initialize. Since 2026-07-28 it sends it with every request, as [MetaClientCapabilities]. Decoding
// drops capabilities that have no field here.
type ClientCapabilities struct {
	// Experimental are non-standard capabilities. The keys are names, the values JSON objects.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Roots declares support for roots/list.
	//
	// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
	// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
	Roots *RootsCapability `json:"roots,omitzero"`
	// Sampling declares support for sampling/createMessage.
	//
	// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
	// from 2027-07-28 on. Use the API of a model provider instead.
	Sampling *SamplingCapability `json:"sampling,omitzero"`
	// Elicitation declares support for elicitation/create. Since 2025-06-18.
	Elicitation *ElicitationCapability `json:"elicitation,omitzero"`
	// Tasks declares which requests the client can run as tasks. 2025-11-25 only.
	Tasks *TasksCapability `json:"tasks,omitzero"`
	// Extensions declares the supported extensions. The keys are identifiers, such as
	// [ExtensionTasks]; the values are the settings, JSON objects. Since 2026-07-28.
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
}

// RootsCapability declares that a client supports roots/list.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
type RootsCapability struct {
	// ListChanged declares that the client sends notifications/roots/list_changed. Until
	// 2025-11-25.
	ListChanged bool `json:"listChanged,omitzero"`
}

// SamplingCapability declares that a client supports sampling/createMessage.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type SamplingCapability struct {
	// Context declares support for [CreateMessageParams.IncludeContext]. Since 2025-11-25.
	Context *Supported `json:"context,omitzero"`
	// Tools declares support for [CreateMessageParams.Tools]. Since 2025-11-25.
	Tools *Supported `json:"tools,omitzero"`
}

// ElicitationCapability declares that a client supports elicitation/create. If both fields are nil,
// the client supports forms only, as in 2025-06-18.
type ElicitationCapability struct {
	// Form declares support for [ElicitModeForm]. Since 2025-11-25.
	Form *Supported `json:"form,omitzero"`
	// URL declares support for [ElicitModeURL]. Since 2025-11-25.
	URL *Supported `json:"url,omitzero"`
}

// SupportsForm reports whether the client supports [ElicitModeForm]. It returns false if c is nil.
func (c *ElicitationCapability) SupportsForm() bool {
	return c != nil && (c.Form != nil || c.URL == nil)
}

// SupportsURL reports whether the client supports [ElicitModeURL]. It returns false if c is nil.
func (c *ElicitationCapability) SupportsURL() bool {
	return c != nil && c.URL != nil
}

// ServerCapabilities declares what a server supports. The server sends it in the result of
// initialize until 2025-11-25, and of server/discover since 2026-07-28. Decoding drops capabilities
// that have no field here.
type ServerCapabilities struct {
	// Experimental are non-standard capabilities. The keys are names, the values JSON objects.
	Experimental map[string]json.RawMessage `json:"experimental,omitzero"`
	// Logging declares that the server sends log messages.
	//
	// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
	// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
	Logging *Supported `json:"logging,omitzero"`
	// Completions declares support for completion/complete. Since 2025-03-26.
	Completions *Supported `json:"completions,omitzero"`
	// Prompts declares that the server has prompts.
	Prompts *PromptsCapability `json:"prompts,omitzero"`
	// Resources declares that the server has resources or resource templates.
	Resources *ResourcesCapability `json:"resources,omitzero"`
	// Tools declares that the server has tools.
	Tools *ToolsCapability `json:"tools,omitzero"`
	// Tasks declares which requests the server can run as tasks. 2025-11-25 only.
	Tasks *TasksCapability `json:"tasks,omitzero"`
	// Extensions declares the supported extensions. The keys are identifiers, such as
	// [ExtensionTasks]; the values are the settings, JSON objects. Since 2026-07-28.
	Extensions map[string]json.RawMessage `json:"extensions,omitzero"`
}

// PromptsCapability declares that a server has prompts.
type PromptsCapability struct {
	// ListChanged declares that the server sends notifications/prompts/list_changed.
	ListChanged bool `json:"listChanged,omitzero"`
}

// ResourcesCapability declares that a server has resources or resource templates.
type ResourcesCapability struct {
	// Subscribe declares that the server sends notifications/resources/updated for subscribed
	// resources.
	Subscribe bool `json:"subscribe,omitzero"`
	// ListChanged declares that the server sends notifications/resources/list_changed.
	ListChanged bool `json:"listChanged,omitzero"`
}

// ToolsCapability declares that a server has tools.
type ToolsCapability struct {
	// ListChanged declares that the server sends notifications/tools/list_changed.
	ListChanged bool `json:"listChanged,omitzero"`
}

// TasksCapability declares which requests a peer can run as tasks. 2025-11-25 only. Support for the
// tasks extension is declared in the Extensions field instead.
type TasksCapability struct {
	// List declares support for tasks/list.
	List *Supported `json:"list,omitzero"`
	// Cancel declares support for tasks/cancel.
	Cancel *Supported `json:"cancel,omitzero"`
	// Requests are the requests that the peer can run as tasks.
	Requests *TaskRequestsCapability `json:"requests,omitzero"`
}

// TaskRequestsCapability lists the requests that a peer can run as tasks. 2025-11-25 only.
type TaskRequestsCapability struct {
	// Tools are the requests about tools. Servers only.
	Tools *TaskToolsCapability `json:"tools,omitzero"`
	// Sampling are the requests about sampling. Clients only.
	//
	// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
	// from 2027-07-28 on. Use the API of a model provider instead.
	Sampling *TaskSamplingCapability `json:"sampling,omitzero"`
	// Elicitation are the requests about elicitation. Clients only.
	Elicitation *TaskElicitationCapability `json:"elicitation,omitzero"`
}

// TaskToolsCapability lists the requests about tools that a server can run as tasks. 2025-11-25
// only.
type TaskToolsCapability struct {
	// Call declares that tools/call can run as a task.
	Call *Supported `json:"call,omitzero"`
}

// TaskSamplingCapability lists the requests about sampling that a client can run as tasks.
// 2025-11-25 only.
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
type TaskSamplingCapability struct {
	// CreateMessage declares that sampling/createMessage can run as a task.
	CreateMessage *Supported `json:"createMessage,omitzero"`
}

// TaskElicitationCapability lists the requests about elicitation that a client can run as tasks.
// 2025-11-25 only.
type TaskElicitationCapability struct {
	// Create declares that elicitation/create can run as a task.
	Create *Supported `json:"create,omitzero"`
}

// ExtensionTasks is the identifier of the tasks extension in [ClientCapabilities] and
// [ServerCapabilities]. Its settings are the empty object.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// ExtensionSkills is the identifier of the skills extension. Package skills implements it.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// ExtensionApps is the identifier of MCP Apps, the extension for pages that show results of tools. Package apps
// implements it.
const ExtensionApps = "io.modelcontextprotocol/ui"

// CheckExtensionID returns nil if id is a valid identifier of an extension: a valid _meta key that
// has a prefix, such as "com.example/name". See [CheckMetaKey].
func CheckExtensionID(id string) error {
	if !strings.Contains(id, "/") {
		return fmt.Errorf("invalid extension identifier %q: %w", id, errNoPrefix)
	}
	if err := CheckMetaKey(id); err != nil {
		return fmt.Errorf("invalid extension identifier: %w", err)
	}
	return nil
}

var errNoPrefix = errors.New("must have a prefix, such as com.example/")

// SubscriptionFilter selects the notifications of a subscription. The server sends no others. Since
// 2026-07-28.
type SubscriptionFilter struct {
	// ToolsListChanged selects notifications/tools/list_changed.
	ToolsListChanged bool `json:"toolsListChanged,omitzero"`
	// PromptsListChanged selects notifications/prompts/list_changed.
	PromptsListChanged bool `json:"promptsListChanged,omitzero"`
	// ResourcesListChanged selects notifications/resources/list_changed.
	ResourcesListChanged bool `json:"resourcesListChanged,omitzero"`
	// ResourceSubscriptions are the URIs of resources whose notifications/resources/updated are
	// selected.
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitzero"`
	// TaskIDs are the tasks whose notifications/tasks are selected. Tasks extension.
	TaskIDs []string `json:"taskIds,omitzero"`
}

// ListenParams are the parameters of subscriptions/listen, which opens a subscription. Since
// 2026-07-28.
type ListenParams struct {
	ParamsBase

	// Notifications are the requested notifications.
	Notifications SubscriptionFilter `json:"notifications"`
}

// SubscriptionsAcknowledgedParams are the parameters of notifications/subscriptions/acknowledged, the
// first message of a subscription. Since 2026-07-28.
type SubscriptionsAcknowledgedParams struct {
	ParamsBase // contains [MetaSubscriptionID]

	// Notifications are the requested notifications that the server supports.
	Notifications SubscriptionFilter `json:"notifications"`
}

// ListenResult is the result of subscriptions/listen. The server sends it when it ends the
// subscription. Since 2026-07-28.
type ListenResult struct {
	ResultBase // contains [MetaSubscriptionID]
}
