package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Meta is the _meta object of parameters, results and other objects: metadata by key; see [CheckMetaKey]. On the wire,
// a nil Meta is absent, and an empty one is present.
type Meta map[string]json.RawMessage

// Keys of [Meta] that the protocol reserves.
const (
	// MetaProgressToken is the token, a string or an integer, with which the receiver of a request
	// sends progress notifications. Without it the receiver sends none.
	MetaProgressToken = "progressToken"

	// MetaProtocolVersion is the [Revision] of a request. Required in requests since 2026-07-28.
	MetaProtocolVersion = "io.modelcontextprotocol/protocolVersion"
	// MetaClientInfo is the [Implementation] of the client. In requests since 2026-07-28.
	MetaClientInfo = "io.modelcontextprotocol/clientInfo"
	// MetaClientCapabilities are the [ClientCapabilities] for a request. Required in requests since
	// 2026-07-28.
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	// MetaLogLevel is the minimum [LoggingLevel] of the log messages for a request. Without it the
	// server sends none. In requests since 2026-07-28.
	//
	// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
	// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
	MetaLogLevel = "io.modelcontextprotocol/logLevel"
	// MetaServerInfo is the [Implementation] of the server. In results since 2026-07-28.
	MetaServerInfo = "io.modelcontextprotocol/serverInfo"
	// MetaSubscriptionID is the id of the subscriptions/listen request that a notification or
	// [ListenResult] belongs to. Since 2026-07-28.
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"

	// MetaRelatedTask is the [RelatedTask] of a message. 2025-11-25 only.
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	// MetaModelImmediateResponse is a string that a host may pass to the model as the result of a
	// tool call while its task runs. In [LegacyCreateTaskResult]. 2025-11-25 only, provisional.
	MetaModelImmediateResponse = "io.modelcontextprotocol/model-immediate-response"

	// MetaTraceParent is the value of the traceparent header of W3C Trace Context.
	MetaTraceParent = "traceparent"
	// MetaTraceState is the value of the tracestate header of W3C Trace Context.
	MetaTraceState = "tracestate"
	// MetaBaggage is the value of the baggage header of W3C Baggage.
	MetaBaggage = "baggage"
)

// Set sets key to the JSON of v. It creates the map if *m is nil. It returns an error that wraps
// [ErrMetaKey] if the key is invalid, and another error if v cannot be encoded.
func (m *Meta) Set(key string, v any) error {
	if err := CheckMetaKey(key); err != nil {
		return err
	}
	raw, err := encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode _meta %q: %w", key, err)
	}
	if *m == nil {
		*m = make(Meta)
	}
	(*m)[key] = raw
	return nil
}

// Get decodes the value of key into the value that into points to, and reports whether the key is
// present. It returns true and an error if the value cannot be decoded.
func (m Meta) Get(key string, into any) (bool, error) {
	raw, ok := m[key]
	if !ok {
		return false, nil
	}
	if err := decode(raw, into); err != nil {
		return true, fmt.Errorf("cannot decode _meta %q: %w", key, err)
	}
	return true, nil
}

// ErrMetaKey is wrapped by the errors of [CheckMetaKey].
var ErrMetaKey = errors.New("invalid _meta key")

// CheckMetaKey returns nil if key is a valid _meta key: an optional prefix and a name (2026-07-28,
// basic, General fields). The prefix consists of labels that are separated by dots, and ends with a
// slash. A label begins with a letter, ends with a letter or digit, and contains letters, digits
// and hyphens. The name is empty, or it begins and ends with a letter or digit and contains
// letters, digits, hyphens, underscores and dots. Errors wrap [ErrMetaKey].
func CheckMetaKey(key string) error {
	name := key
	if prefix, rest, ok := strings.Cut(key, "/"); ok {
		if err := validMetaPrefix(prefix); err != nil {
			return fmt.Errorf("%w %q: %w", ErrMetaKey, key, err)
		}
		name = rest
	}
	if name == "" {
		return nil
	}
	if !isAlphanumeric(name[0]) || !isAlphanumeric(name[len(name)-1]) {
		return fmt.Errorf("%w %q: the name must begin and end with a letter or digit", ErrMetaKey, key)
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("%w %q: the name must contain only letters, digits, '-', '_' and '.'", ErrMetaKey, key)
		}
	}
	return nil
}

func validMetaPrefix(prefix string) error {
	for label := range strings.SplitSeq(prefix, ".") {
		if label == "" {
			return errors.New("the prefix must not have an empty label")
		}
		if !isLetter(label[0]) || !isAlphanumeric(label[len(label)-1]) {
			return fmt.Errorf("label %q must begin with a letter and end with a letter or digit", label)
		}
		for i := range len(label) {
			if c := label[i]; !isAlphanumeric(c) && c != '-' {
				return fmt.Errorf("label %q must contain only letters, digits and '-'", label)
			}
		}
	}
	return nil
}

// CheckMeta returns nil if a program may send an entry of _meta with this key and raw value: the key satisfies
// [CheckMetaKey] and is not reserved by the protocol, except for the keys of trace context, and the value is JSON.
// Errors about the key wrap [ErrMetaKey].
func CheckMeta(key string, value []byte) error {
	switch key {
	case MetaTraceParent, MetaTraceState, MetaBaggage:
	default:
		if err := CheckMetaKey(key); err != nil {
			return err
		}
		if ReservedMetaKey(key) {
			return fmt.Errorf("%w %q: it is reserved for the protocol", ErrMetaKey, key)
		}
	}
	if err := jsonrpc.Check(value, jsonrpc.Limits{}); err != nil {
		return fmt.Errorf("_meta %q must be JSON: %w", key, err)
	}
	return nil
}

// ReservedMetaKey reports whether key is reserved for the protocol: the second label of its prefix
// is mcp or modelcontextprotocol, or it is [MetaProgressToken], [MetaTraceParent], [MetaTraceState]
// or [MetaBaggage]. These are the rules since 2025-11-25. The different prefixes that 2025-06-18
// reserved are not.
func ReservedMetaKey(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		switch key {
		case MetaProgressToken, MetaTraceParent, MetaTraceState, MetaBaggage:
			return true
		}
		return false
	}
	_, rest, _ := strings.Cut(prefix, ".")
	second, _, _ := strings.Cut(rest, ".")
	return second == "mcp" || second == "modelcontextprotocol"
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isAlphanumeric(c byte) bool {
	return isLetter(c) || '0' <= c && c <= '9'
}

// RequestMeta are the keys of a request's [Meta] that the protocol defines. Decode _meta into it to read all of them at
// once. Decoding drops other keys.
type RequestMeta struct {
	// ProgressToken is [MetaProgressToken]. Zero means absent.
	ProgressToken jsonrpc.ID `json:"progressToken,omitzero"`
	// ProtocolVersion is [MetaProtocolVersion]. Required since 2026-07-28.
	ProtocolVersion Revision `json:"io.modelcontextprotocol/protocolVersion,omitempty"`
	// ClientInfo is [MetaClientInfo], for display only. Since 2026-07-28.
	ClientInfo *Implementation `json:"io.modelcontextprotocol/clientInfo,omitzero"`
	// ClientCapabilities is [MetaClientCapabilities]. Required since 2026-07-28.
	ClientCapabilities *ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities,omitzero"`
	// LogLevel is [MetaLogLevel]. Empty means absent. Since 2026-07-28.
	//
	// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
	// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead.
	LogLevel LoggingLevel `json:"io.modelcontextprotocol/logLevel,omitempty"`
	// RelatedTask is [MetaRelatedTask]. 2025-11-25 only.
	RelatedTask *RelatedTask `json:"io.modelcontextprotocol/related-task,omitzero"`
	// TraceParent is [MetaTraceParent].
	TraceParent string `json:"traceparent,omitempty"`
	// TraceState is [MetaTraceState].
	TraceState string `json:"tracestate,omitempty"`
	// Baggage is [MetaBaggage].
	Baggage string `json:"baggage,omitempty"`
}

// ParamsBase is embedded in the parameters of every request and notification.
type ParamsBase struct {
	// Meta is the metadata of the message.
	Meta Meta `json:"_meta,omitzero"`
}

// EmptyParams are the parameters of methods that define none: ping, server/discover, roots/list,
// notifications/initialized and the list_changed notifications.
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

	// Source is the JSON that the result was decoded from, for programs that forward it. The encoding of a
	// [CallToolResult], [GetPromptResult] or [ReadResourceResult] uses the bytes of Source for everything that the
	// other fields do not change, and keeps what no field represents. Decoding does not set it. The bytes must not be
	// modified.
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
	CacheScope CacheScope `json:"cacheScope,omitempty"`
}

// CacheScope says for whom a result may be cached.
type CacheScope string

// Values of [CacheHints.CacheScope].
const (
	CacheScopePrivate CacheScope = "private" // valid only for the authorization of the request
	CacheScopePublic  CacheScope = "public"  // the same for every user; shared caches may store it
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

// ProgressParams are the parameters of notifications/progress.
type ProgressParams struct {
	ParamsBase

	// ProgressToken is the [MetaProgressToken] of the request.
	ProgressToken jsonrpc.ID `json:"progressToken"`
	// Progress is the progress so far. It increases with every notification.
	Progress float64 `json:"progress"`
	// Total is the final value of Progress. 0 means that it is unknown.
	Total float64 `json:"total,omitzero"`
	// Message describes the progress, for display. Since 2025-03-26.
	Message string `json:"message,omitempty"`
}

// Icons are the icons of a program, tool, prompt or resource. Decoding leaves out those whose source
// is neither an https URL nor a data URI of an image (2025-11-25, basic, icons).
type Icons []Icon

// UnmarshalJSON implements json.Unmarshaler.
func (i *Icons) UnmarshalJSON(data []byte) error {
	var all []Icon
	if err := decode(data, &all); err != nil {
		return err
	}
	*i = slices.DeleteFunc(all, func(one Icon) bool { return !one.isSafe() })
	return nil
}

// Icon is an icon for a user interface. Its source is untrusted: fetch it without credentials and
// without redirects to other origins, limit its size, and detect its type from its content. Since
// 2025-11-25.
type Icon struct {
	// Src is an https URL or a data URI.
	Src string `json:"src"`
	// MimeType overrides the MIME type of the source.
	MimeType string `json:"mimeType,omitempty"`
	// Sizes are sizes such as "48x48", or "any" for a scalable format. Nil means any size.
	Sizes []string `json:"sizes,omitzero"`
	// Theme is the background that the icon is designed for, [ThemeLight] or [ThemeDark]. Empty
	// means any.
	Theme Theme `json:"theme,omitempty"`
}

// Theme is the background that an icon is designed for.
type Theme string

// Values of [Icon.Theme].
const (
	ThemeLight Theme = "light"
	ThemeDark  Theme = "dark"
)

func (i *Icon) isSafe() bool {
	const image = "data:image/"
	if len(i.Src) >= len(image) && strings.EqualFold(i.Src[:len(image)], image) {
		return true
	}
	u, err := url.Parse(i.Src)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

// IsForwardable reports whether a gateway may forward an entry of _meta to the other side. It may if [CheckMeta]
// accepts the entry, which then does not belong to the connection on which it arrived.
func IsForwardable(key string, value json.RawMessage) bool {
	// Most entries belong to the protocol: reject them without the cost of an error.
	return !strings.HasPrefix(key, "io.modelcontextprotocol/") && CheckMeta(key, value) == nil
}

// Forwardable returns the entries of m that [IsForwardable] accepts, or nil if there are none.
func (m Meta) Forwardable() Meta {
	var kept Meta
	for key, value := range m {
		if !IsForwardable(key, value) {
			continue
		}
		if kept == nil {
			kept = make(Meta, len(m))
		}
		kept[key] = value
	}
	return kept
}

// WithForwardableMeta returns an object, such as the params of a notification, with only those entries of its _meta
// that [IsForwardable] accepts, or without _meta if there are none. It does not modify the object, which must be valid
// JSON.
func WithForwardableMeta(object json.RawMessage) json.RawMessage {
	meta, ok := jsonrpc.Get(object, "_meta")
	if !ok {
		return object
	}
	var rejected []string
	accepted := false
	for key, value := range jsonrpc.All(meta) {
		if IsForwardable(key, value) {
			accepted = true
		} else {
			rejected = append(rejected, key)
		}
	}
	rest := jsonrpc.Without(object, "_meta")
	switch {
	case !accepted:
		return rest
	case rejected == nil:
		return object
	}
	out := append([]byte(`{"_meta":`), jsonrpc.Without(meta, rejected...)...)
	if len(rest) > len("{}") {
		out = append(out, ',')
	}
	return append(out, rest[1:]...)
}
