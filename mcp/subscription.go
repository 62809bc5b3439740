package mcp

// SubscriptionFilter names the notifications that a client wants on a subscription; nothing else may
// be sent on it. Since 2026-07-28.
type SubscriptionFilter struct {
	ToolsListChanged     bool `json:"toolsListChanged,omitzero"`
	PromptsListChanged   bool `json:"promptsListChanged,omitzero"`
	ResourcesListChanged bool `json:"resourcesListChanged,omitzero"`
	// ResourceSubscriptions are URIs of resources whose updates are wanted.
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitzero"`
	// TaskIDs are tasks whose status is wanted. Tasks extension.
	TaskIDs []string `json:"taskIds,omitzero"`
}

// ListenParams are the parameters of subscriptions/listen, which opens a subscription. Since 2026-07-28.
type ListenParams struct {
	ParamsBase

	Notifications SubscriptionFilter `json:"notifications"`
}

// SubscriptionsAcknowledgedParams are the parameters of notifications/subscriptions/acknowledged, the
// first message of a subscription. Since 2026-07-28.
type SubscriptionsAcknowledgedParams struct {
	ParamsBase // with [MetaSubscriptionID]

	// Notifications are those that were asked for and that the server has.
	Notifications SubscriptionFilter `json:"notifications"`
}

// ListenResult answers subscriptions/listen when the server ends the subscription. Since 2026-07-28.
type ListenResult struct {
	ResultBase // with [MetaSubscriptionID]
}
