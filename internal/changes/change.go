package changes

import (
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
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

const (
	// replayTime is how long the replicas may take to announce a change to each other while a stream moves between
	// them.
	replayTime = 250 * time.Millisecond
	// maxRecent limits the changes of this time. Further ones are not replayed.
	maxRecent = 1024
)

// recentChanges holds the changes of the last replayTime. The zero value holds none. It is safe for concurrent use.
type recentChanges struct {
	mu  sync.Mutex
	all []recentChange // the oldest first
}

type recentChange struct {
	change  Change
	visible func(principal.Principal) bool // see Broadcaster.PublishTo
	at      time.Time
}

func (r *recentChanges) add(visible func(principal.Principal) bool, c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.forget(now)
	if len(r.all) < maxRecent {
		r.all = append(r.all, recentChange{c, visible, now})
	}
}

// forget drops the changes that are too old. The caller holds mu.
func (r *recentChanges) forget(now time.Time) {
	n := 0
	for n < len(r.all) && now.Sub(r.all[n].at) > replayTime {
		n++
	}
	if n > 0 {
		r.all = append(r.all[:0:0], r.all[n:]...)
	}
}

// Replay records the changes of the last moments in a subscription that continues one of another replica. The other
// replica may not have recorded them, because it had not received their announcements when it stopped.
func (h *Broadcaster) Replay(s *Subscription) {
	h.recent.mu.Lock()
	h.recent.forget(time.Now())
	all := append([]recentChange(nil), h.recent.all...)
	h.recent.mu.Unlock()
	for _, r := range all {
		if r.visible == nil || r.visible(s.subscriber) {
			s.Record(r.change)
		}
	}
}
