package changes

import (
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Kind is the kind of a Change.
type Kind uint8

// The kinds of changes.
const (
	ToolsChanged     Kind = 1 << iota // the list of tools
	PromptsChanged                    // the list of prompts
	ResourcesChanged                  // the list of resources or of resource templates
	ResourceUpdated                   // the contents of one resource
)

var listKinds = [...]Kind{ToolsChanged, PromptsChanged, ResourcesChanged}

// Method returns the notification for changes of this kind.
func (k Kind) Method() string {
	switch k {
	case ToolsChanged:
		return mcp.NotificationToolListChanged
	case PromptsChanged:
		return mcp.NotificationPromptListChanged
	case ResourcesChanged:
		return mcp.NotificationResourceListChanged
	case ResourceUpdated:
		return mcp.NotificationResourceUpdated
	}
	return ""
}

// String returns a name for logs.
func (k Kind) String() string {
	return strings.TrimPrefix(k.Method(), "notifications/")
}

// Change is a change of a list or a resource.
type Change struct {
	Kind Kind
	URI  string // URI of the updated resource
	// Resync means that no change was reported, but that one may have been missed: before the
	// subscription, or while its connection was lost.
	Resync bool
}

// AppendParams appends the params of the notification for the change, or nothing if it needs
// none. subscription is the ID of the subscriptions/listen request; zero means none.
func (c Change) AppendParams(dst []byte, subscription jsonrpc.ID) []byte {
	if subscription.IsZero() && c.Kind != ResourceUpdated {
		return dst
	}
	dst = append(dst, '{')
	if !subscription.IsZero() {
		dst = AppendSubscription(dst, subscription)
	}
	if c.Kind == ResourceUpdated {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, `"uri":`...)
		dst = jsonrpc.AppendString(dst, c.URI)
	}
	return append(dst, '}')
}

// AppendSubscription appends the key _meta with the ID of the subscription that a message
// belongs to (2026-07-28, basic/patterns/subscriptions).
func AppendSubscription(dst []byte, id jsonrpc.ID) []byte {
	dst = append(dst, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	return append(id.Append(dst), '}')
}

// Of returns the change that a notification reports. It returns false for other messages,
// and for a notifications/resources/updated without a URI.
func Of(m *jsonrpc.Message) (Change, bool) {
	switch m.Method {
	case mcp.NotificationToolListChanged:
		return Change{Kind: ToolsChanged}, true
	case mcp.NotificationPromptListChanged:
		return Change{Kind: PromptsChanged}, true
	case mcp.NotificationResourceListChanged:
		return Change{Kind: ResourcesChanged}, true
	case mcp.NotificationResourceUpdated:
		raw, _ := m.Params.Get("uri")
		uri := jsonrpc.Unquote(raw)
		return Change{Kind: ResourceUpdated, URI: uri}, uri != ""
	}
	return Change{}, false
}
