package mcp

// ParamsBase is what the parameters of every request and notification have in common.
type ParamsBase struct {
	Meta Meta `json:"_meta,omitzero"`
}

// EmptyParams are the parameters of methods that take none: ping, server/discover, roots/list,
// notifications/initialized and the list_changed notifications.
type EmptyParams struct {
	ParamsBase
}

// ResultBase is what every result has in common.
type ResultBase struct {
	Meta Meta `json:"_meta,omitzero"`

	// ResultType says how to read the result. Since 2026-07-28, where it is required; absent, from
	// an older peer, it means [ResultTypeComplete]. A value that the receiver does not know makes
	// the result invalid.
	ResultType string `json:"resultType,omitempty"`
}

// Values of [ResultBase.ResultType].
const (
	ResultTypeComplete      = "complete"       // the result is the answer
	ResultTypeInputRequired = "input_required" // the result is an [InputRequiredResult]
	ResultTypeTask          = "task"           // the result is a [CreateTaskResult]; tasks extension
)

// EmptyResult answers requests that have nothing to say but that they succeeded.
type EmptyResult struct {
	ResultBase
}

// CacheHints tell a client how long and for whom it may keep a result. Since 2026-07-28, where the
// results that have them must carry both.
type CacheHints struct {
	// TTLMs is for how many milliseconds the result is fresh. Zero is immediately stale.
	TTLMs *int64 `json:"ttlMs,omitzero"`
	// CacheScope is [CacheScopePrivate] or [CacheScopePublic].
	CacheScope string `json:"cacheScope,omitempty"`
}

// Values of [CacheHints.CacheScope].
const (
	CacheScopePrivate = "private" // only for the authorization it was obtained with
	CacheScopePublic  = "public"  // the same for everybody; shared caches may keep it
)

// PaginatedParams are the parameters of the list methods.
type PaginatedParams struct {
	ParamsBase

	// Cursor asks for the page after the one that returned it as [PageInfo.NextCursor]. It is
	// opaque. Nil asks for the first page; the empty string is a cursor like any other.
	Cursor *string `json:"cursor,omitzero"`
}

// PageInfo is what the results of the list methods have in common.
type PageInfo struct {
	// NextCursor is set if there may be more, and then asks for the next page even if it is the
	// empty string.
	NextCursor *string `json:"nextCursor,omitzero"`
}
