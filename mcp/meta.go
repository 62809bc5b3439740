package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Meta is the _meta member of parameters, results and many things within them: metadata by key.
// The nil Meta is absent, an empty one is present.
type Meta map[string]json.RawMessage

// Keys of [Meta] that the protocol reserves.
const (
	// MetaProgressToken holds a string or an integer, and asks for progress notifications that bear it.
	MetaProgressToken = "progressToken"

	// MetaProtocolVersion holds the revision a request is made in. Required of requests since 2026-07-28.
	MetaProtocolVersion = "io.modelcontextprotocol/protocolVersion"
	// MetaClientInfo holds the client's [Implementation]. On requests since 2026-07-28.
	MetaClientInfo = "io.modelcontextprotocol/clientInfo"
	// MetaClientCapabilities holds the [ClientCapabilities] that the client has for this request.
	// Required of requests since 2026-07-28.
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	// MetaLogLevel holds the least [LoggingLevel] that a request asks to be sent. Without it nothing
	// is logged to the client. On requests since 2026-07-28.
	MetaLogLevel = "io.modelcontextprotocol/logLevel"
	// MetaServerInfo holds the server's [Implementation]. On results since 2026-07-28.
	MetaServerInfo = "io.modelcontextprotocol/serverInfo"
	// MetaSubscriptionID holds the id of the subscriptions/listen request that a notification, or
	// the result that ends the subscription, belongs to. Since 2026-07-28.
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"

	// MetaRelatedTask holds the [RelatedTask] that a message belongs to. 2025-11-25 only.
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	// MetaModelImmediateResponse holds a string that a host may give to the model as the result of a
	// tool call while its task runs. On a [LegacyCreateTaskResult]. 2025-11-25 only, provisional.
	MetaModelImmediateResponse = "io.modelcontextprotocol/model-immediate-response"

	// MetaTraceParent, MetaTraceState and MetaBaggage hold trace context in the formats that W3C
	// Trace Context and W3C Baggage give to the headers of these names.
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	MetaBaggage     = "baggage"
)

// Set sets key to the JSON form of v, making the map if there is none. It returns an error that
// wraps [ErrMetaKey] if the key does not follow the grammar, and one if v has no JSON form.
func (m *Meta) Set(key string, v any) error {
	if err := ValidMetaKey(key); err != nil {
		return err
	}
	raw, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode _meta %q: %w", key, err)
	}
	if *m == nil {
		*m = make(Meta)
	}
	(*m)[key] = raw
	return nil
}

// Get decodes the value of key into what into points to, and reports whether there is one. The error
// is about a value that does not fit.
func (m Meta) Get(key string, into any) (bool, error) {
	raw, ok := m[key]
	if !ok {
		return false, nil
	}
	if err := decode(raw, into); err != nil {
		return true, fmt.Errorf("decode _meta %q: %w", key, err)
	}
	return true, nil
}

// ErrMetaKey is wrapped by the errors of [ValidMetaKey].
var ErrMetaKey = errors.New("invalid _meta key")

// ValidMetaKey returns nil if key follows the grammar of _meta keys: a name, which may be empty, after
// an optional prefix of labels that are joined by dots and end with a slash (2026-07-28, basic,
// General fields).
func ValidMetaKey(key string) error {
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
			return fmt.Errorf("%w %q: the name may hold only letters, digits, '-', '_' and '.'", ErrMetaKey, key)
		}
	}
	return nil
}

func validMetaPrefix(prefix string) error {
	for label := range strings.SplitSeq(prefix, ".") {
		if label == "" {
			return errors.New("the prefix has an empty label")
		}
		if !isLetter(label[0]) || !isAlphanumeric(label[len(label)-1]) {
			return fmt.Errorf("label %q must begin with a letter and end with a letter or digit", label)
		}
		for i := range len(label) {
			if c := label[i]; !isAlphanumeric(c) && c != '-' {
				return fmt.Errorf("label %q may hold only letters, digits and '-'", label)
			}
		}
	}
	return nil
}

// ReservedMetaKey reports whether key belongs to the protocol, and so is not for applications to
// define: its prefix has mcp or modelcontextprotocol as second label, or it is one of the bare keys
// that the protocol gives a meaning ([MetaProgressToken] and those of trace context).
//
// 2025-06-18 reserved other prefixes (those where another label follows mcp or modelcontextprotocol);
// later revisions gave them back.
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
