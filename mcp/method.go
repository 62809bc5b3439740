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
	MethodSetLevel              = "logging/setLevel"     // until 2025-11-25
	MethodListen                = "subscriptions/listen" // since 2026-07-28
)

// Methods of requests that a server sends. Since 2026-07-28 they are entries of an
// [InputRequiredResult] instead.
const (
	MethodCreateMessage = "sampling/createMessage"
	MethodElicit        = "elicitation/create" // since 2025-06-18
	MethodListRoots     = "roots/list"
)

// MethodPing is the method of a request with which either side checks that the other one responds.
// Until 2025-11-25.
const MethodPing = "ping"

// Methods of requests about tasks. In 2025-11-25 either side may send them to the side that runs the
// task. In the tasks extension of 2026-07-28 only the client sends them.
const (
	MethodGetTask    = "tasks/get"
	MethodCancelTask = "tasks/cancel"
	MethodTaskResult = "tasks/result" // 2025-11-25 only
	MethodListTasks  = "tasks/list"   // 2025-11-25 only
	MethodUpdateTask = "tasks/update" // extension only
)

// Methods of notifications that a client sends.
const (
	NotificationInitialized      = "notifications/initialized"        // until 2025-11-25
	NotificationRootsListChanged = "notifications/roots/list_changed" // until 2025-11-25
)

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
	NotificationMessage                   = "notifications/message"
	NotificationToolListChanged           = "notifications/tools/list_changed"
	NotificationPromptListChanged         = "notifications/prompts/list_changed"
	NotificationResourceListChanged       = "notifications/resources/list_changed"
	NotificationResourceUpdated           = "notifications/resources/updated"
	NotificationElicitationComplete       = "notifications/elicitation/complete"       // 2025-11-25 only
	NotificationSubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" // since 2026-07-28
	NotificationTasks                     = "notifications/tasks"                      // extension only
)
