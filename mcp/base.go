package mcp

import "encoding/json"

// ParamsBase is embedded in the parameters of every request and notification.
type ParamsBase struct {
	// Meta is the metadata of the message.
	Meta Meta `json:"_meta,omitzero"`
}

// EmptyParams are the parameters of methods that have no parameters of their own: ping,
// server/discover, roots/list, notifications/initialized and the list_changed notifications.
type EmptyParams struct {
	ParamsBase
}

// ResultBase is embedded in every result.
type ResultBase struct {
	// Meta is the metadata of the result.
	Meta Meta `json:"_meta,omitzero"`

	// ResultType is the kind of the result. It is required since 2026-07-28. Empty, from an older
	// peer, means [ResultTypeComplete]. A receiver must reject a value that it does not know.
	ResultType string `json:"resultType,omitempty"`

	// Source is the JSON that the result was decoded from, for programs that forward it. The
	// encoding of a [CallToolResult], [GetPromptResult] or [ReadResourceResult] uses the bytes of
	// Source for everything that the other fields do not change, and keeps the members without a
	// field. Decoding does not set it. The bytes must not be modified.
	Source json.RawMessage `json:"-"`
}

// Values of [ResultBase.ResultType]. Since 2026-07-28.
const (
	ResultTypeComplete      = "complete"       // the result of the request
	ResultTypeInputRequired = "input_required" // an [InputRequiredResult]
	ResultTypeTask          = "task"           // a [CreateTaskResult]; tasks extension
)

// EmptyResult is the result of requests that only succeed or fail.
type EmptyResult struct {
	ResultBase
}

// CacheHints tell a client how long it may cache a result, and for whom. Since 2026-07-28, which
// requires both fields in the results that embed CacheHints.
type CacheHints struct {
	// TTLMs is the time for which the result is fresh, in milliseconds. 0 means that it is stale at
	// once. Nil means that it is absent.
	TTLMs *int64 `json:"ttlMs,omitzero"`
	// CacheScope is [CacheScopePrivate] or [CacheScopePublic].
	CacheScope string `json:"cacheScope,omitempty"`
}

// Values of [CacheHints.CacheScope].
const (
	CacheScopePrivate = "private" // valid only for the authorization of the request
	CacheScopePublic  = "public"  // the same for every user; shared caches may store it
)

// PaginatedParams are the parameters of the list methods.
type PaginatedParams struct {
	ParamsBase

	// Cursor selects a page. It is the [PageInfo.NextCursor] of the previous page, and opaque to
	// the client. Nil selects the first page; the empty string is a valid cursor.
	Cursor *string `json:"cursor,omitzero"`
}

// PageInfo is embedded in the results of the list methods.
type PageInfo struct {
	// NextCursor is the cursor of the next page. Nil means that this is the last page; the empty
	// string is a valid cursor.
	NextCursor *string `json:"nextCursor,omitzero"`
}
