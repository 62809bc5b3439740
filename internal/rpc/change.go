package rpc

import (
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ChangeKind is the kind of a Change.
type ChangeKind uint8

// The kinds of changes.
const (
	ToolsChanged     ChangeKind = 1 << iota // the list of tools
	PromptsChanged                          // the list of prompts
	ResourcesChanged                        // the list of resources, or that of templates
	ResourceUpdated                         // the contents of one resource
)

var listKinds = [...]ChangeKind{ToolsChanged, PromptsChanged, ResourcesChanged}

// Method returns the notification for changes of this kind.
func (k ChangeKind) Method() string {
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
func (k ChangeKind) String() string {
	return strings.TrimPrefix(k.Method(), "notifications/")
}

// Change is a change of a list or a resource.
type Change struct {
	Kind ChangeKind
	URI  string // of a ResourceUpdated
	// Resync means that no change was reported, but that one may have been missed: before the
	// subscription, or while its connection was lost.
	Resync bool
}

// AppendParams appends the params of the notification for the change; nothing if it needs none.
// Subscription is the id of the subscriptions/listen request; zero for none.
func (c Change) AppendParams(dst []byte, subscription jsonrpc.ID) []byte {
	if subscription.IsZero() && c.Kind != ResourceUpdated {
		return dst
	}
	dst = append(dst, '{')
	if !subscription.IsZero() {
		dst = AppendSubscription(dst, subscription)
	}
	if c.Kind == ResourceUpdated {
		dst = append(appendComma(dst), `"uri":`...)
		dst = jsonrpc.AppendString(dst, c.URI)
	}
	return append(dst, '}')
}

// AppendSubscription appends the member _meta with the id of the subscription that a message
// belongs to (2026-07-28, basic/patterns/subscriptions).
func AppendSubscription(dst []byte, id jsonrpc.ID) []byte {
	dst = append(dst, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	return append(id.Append(dst), '}')
}

// ChangeOf returns the change that a notification reports. It returns false for other messages,
// and for a notifications/resources/updated without a URI.
func ChangeOf(m *jsonrpc.Message) (Change, bool) {
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
