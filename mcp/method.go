package mcp

// Methods of requests that a client sends.
const (
	MethodInitialize            = "initialize"      // until 2025-11-25
	MethodDiscover              = "server/discover" // since 2026-07-28
	MethodListTools             = "tools/list"
	MethodCallTool              = "tools/call"
	MethodListResources         = "resources/list"
	MethodListResourceTemplates = "resources/templates/list"
	MethodReadResource          = "resources/read"
	MethodSubscribe             = "resources/subscribe"   // until 2025-11-25
	MethodUnsubscribe           = "resources/unsubscribe" // until 2025-11-25
	MethodListPrompts           = "prompts/list"
	MethodGetPrompt             = "prompts/get"
	MethodComplete              = "completion/complete"
	MethodListen                = "subscriptions/listen" // since 2026-07-28
)

// MethodSetLevel is the method of a request that sets the minimum level of log messages. Until 2025-11-25.
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
const MethodSetLevel = "logging/setLevel"

// MethodElicit is the method of a request that a server sends. Since 2026-07-28 it is an entry of an
// [InputRequiredResult] instead. Since 2025-06-18.
const MethodElicit = "elicitation/create"

// MethodCreateMessage is the method of a request that a server sends, as [MethodElicit].
//
// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
// from 2027-07-28 on. Use the API of a model provider instead.
const MethodCreateMessage = "sampling/createMessage"

// MethodListRoots is the method of a request that a server sends, as [MethodElicit].
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
const MethodListRoots = "roots/list"

// MethodPing is the method of a request with which either side checks that the other one responds.
// Until 2025-11-25.
const MethodPing = "ping"

// Methods of requests about tasks. In 2025-11-25, either side may send them to the side that runs
// the task. In the tasks extension of 2026-07-28, only the client sends them.
const (
	MethodGetTask    = "tasks/get"
	MethodCancelTask = "tasks/cancel"
	MethodTaskResult = "tasks/result" // 2025-11-25 only
	MethodListTasks  = "tasks/list"   // 2025-11-25 only
	MethodUpdateTask = "tasks/update" // extension only
)

// Methods of requests of the skills extension.
const (
	MethodListSkills    = "skills/list"
	MethodGetSkill      = "skills/get"
	MethodReadDirectory = "resources/directory/read"
)

// NotificationInitialized is the method of a notification that a client sends. Until 2025-11-25.
const NotificationInitialized = "notifications/initialized"

// NotificationRootsListChanged is the method of a notification that a client sends. Until 2025-11-25.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
const NotificationRootsListChanged = "notifications/roots/list_changed"

// Methods of notifications that either side sends. Since 2026-07-28 only servers send progress, and a
// server sends cancelled only to end a subscription.
const (
	NotificationCancelled = "notifications/cancelled"
	NotificationProgress  = "notifications/progress"
)

// NotificationTaskStatus is the method of a notification that a [LegacyTask] has changed. The side
// that runs the task sends it. 2025-11-25 only.
const NotificationTaskStatus = "notifications/tasks/status"

// Methods of notifications that a server sends.
const (
	NotificationToolListChanged           = "notifications/tools/list_changed"
	NotificationPromptListChanged         = "notifications/prompts/list_changed"
	NotificationResourceListChanged       = "notifications/resources/list_changed"
	NotificationResourceUpdated           = "notifications/resources/updated"
	NotificationElicitationComplete       = "notifications/elicitation/complete"       // 2025-11-25 only
	NotificationSubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" // since 2026-07-28
	NotificationTasks                     = "notifications/tasks"                      // extension only
)

// NotificationMessage is the method of a notification that a server sends. Its parameters are [LoggingMessageParams].
//
// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
const NotificationMessage = "notifications/message"

// Error codes that the protocol defines in addition to JSON-RPC's. The codes from -32099 to -32020 are reserved for
// the protocol. The codes from -32019 to -32000 have no defined meaning, except for [CodeResourceNotFound]
// (2026-07-28, basic, Error Codes).
const (
	// CodeHeaderMismatch reports that the headers of an HTTP request are missing, malformed or
	// different from the values in its body. Since 2026-07-28.
	CodeHeaderMismatch int64 = -32020
	// CodeMissingCapability reports that a request needs a capability that the client has not
	// declared in it. The data is [MissingCapabilityData]. Since 2026-07-28.
	CodeMissingCapability int64 = -32021
	// CodeUnsupportedVersion reports that the server does not support the revision of the request.
	// The data is [UnsupportedVersionData]. Since 2026-07-28.
	CodeUnsupportedVersion int64 = -32022

	// CodeResourceNotFound reports that the resource of a resources/read does not exist. The data is
	// [ResourceNotFoundData]. Until 2025-11-25; later servers return jsonrpc.CodeInvalidParams.
	CodeResourceNotFound int64 = -32002
	// CodeURLElicitationRequired reports that the user must open one or more URLs before the request
	// can succeed. The data is [URLElicitationRequiredData]. 2025-11-25 only.
	CodeURLElicitationRequired int64 = -32042
)

// UnsupportedVersionData is the data of a [CodeUnsupportedVersion] error.
type UnsupportedVersionData struct {
	// Supported are the revisions that the server supports.
	Supported []string `json:"supported"`
	// Requested is the revision of the request.
	Requested string `json:"requested"`
}

// MarshalJSON implements json.Marshaler.
func (d UnsupportedVersionData) MarshalJSON() ([]byte, error) {
	type plain UnsupportedVersionData
	return encode((*plain)(&d))
}

// MissingCapabilityData is the data of a [CodeMissingCapability] error.
type MissingCapabilityData struct {
	// RequiredCapabilities are the capabilities that the request needs.
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
}

// ResourceNotFoundData is the data of a [CodeResourceNotFound] error.
type ResourceNotFoundData struct {
	// URI is the URI of the request.
	URI string `json:"uri"`
}

// URLElicitationRequiredData is the data of a [CodeURLElicitationRequired] error.
type URLElicitationRequiredData struct {
	// Elicitations are the URLs to open. Each has the mode [ElicitModeURL] and an ElicitationID.
	Elicitations []ElicitParams `json:"elicitations"`
}

// MarshalJSON implements json.Marshaler.
func (d URLElicitationRequiredData) MarshalJSON() ([]byte, error) {
	type plain URLElicitationRequiredData
	return encode((*plain)(&d))
}
