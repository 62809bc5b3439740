package mcp

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
	ParamsBase // with [MetaSubscriptionID]

	// Notifications are the requested notifications that the server supports.
	Notifications SubscriptionFilter `json:"notifications"`
}

// ListenResult is the result of subscriptions/listen. The server sends it when it ends the
// subscription. Since 2026-07-28.
type ListenResult struct {
	ResultBase // with [MetaSubscriptionID]
}
