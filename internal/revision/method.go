package revision

import (
	"strconv"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Sender says which side, or whether both sides, may send a message.
type Sender uint8

// The senders of messages.
const (
	Client Sender = 1 << iota
	Server
	Either = Client | Server
)

// Method is one row of the method table.
type Method struct {
	Name         string
	Sender       Sender
	Notification bool
	First, Last  mcp.Revision // both inclusive; an empty Last is the newest
	Capability   string       // the receiver's capability; empty: none is needed
	Since2026    Sender       // the sender since 2026-07-28, if it is not Sender
}

// From returns who may send the method in revision r. The revision must have the method.
func (m *Method) From(r mcp.Revision) Sender {
	if r.Modern() && m.Since2026 != 0 {
		return m.Since2026
	}
	return m.Sender
}

// In reports whether revision r has the method.
func (m *Method) In(r mcp.Revision) bool {
	return r >= m.First && (m.Last == "" || r <= m.Last)
}

const (
	v2024  = mcp.V20241105
	v03    = mcp.V20250326
	v06    = mcp.V20250618
	v11    = mcp.V20251125
	modern = mcp.V20260728
)

// methods lists every method of every revision. Input requests of 2026-07-28 travel inside
// a result and have no row; neither do extensions. Tests compare the table with the
// official schemas.
var methods = []Method{
	{Name: mcp.MethodInitialize, Sender: Client, First: v2024, Last: v11},
	{Name: mcp.MethodPing, Sender: Either, First: v2024, Last: v11},
	{Name: mcp.MethodDiscover, Sender: Client, First: modern},
	{Name: mcp.MethodListTools, Sender: Client, First: v2024, Capability: "tools"},
	{Name: mcp.MethodCallTool, Sender: Client, First: v2024, Capability: "tools"},
	{Name: mcp.MethodListResources, Sender: Client, First: v2024, Capability: "resources"},
	{Name: mcp.MethodListResourceTemplates, Sender: Client, First: v2024, Capability: "resources"},
	{Name: mcp.MethodReadResource, Sender: Client, First: v2024, Capability: "resources"},
	{Name: mcp.MethodSubscribe, Sender: Client, First: v2024, Last: v11, Capability: "resources.subscribe"},
	{Name: mcp.MethodUnsubscribe, Sender: Client, First: v2024, Last: v11, Capability: "resources.subscribe"},
	{Name: mcp.MethodListPrompts, Sender: Client, First: v2024, Capability: "prompts"},
	{Name: mcp.MethodGetPrompt, Sender: Client, First: v2024, Capability: "prompts"},
	{Name: mcp.MethodComplete, Sender: Client, First: v2024, Capability: "completions"},
	{Name: mcp.MethodSetLevel, Sender: Client, First: v2024, Last: v11, Capability: "logging"},
	{Name: mcp.MethodListen, Sender: Client, First: modern},
	{Name: mcp.MethodCreateMessage, Sender: Server, First: v2024, Last: v11, Capability: "sampling"},
	{Name: mcp.MethodListRoots, Sender: Server, First: v2024, Last: v11, Capability: "roots"},
	{Name: mcp.MethodElicit, Sender: Server, First: v06, Last: v11, Capability: "elicitation"},
	{Name: mcp.MethodGetTask, Sender: Either, First: v11, Last: v11, Capability: "tasks"},
	{Name: mcp.MethodTaskResult, Sender: Either, First: v11, Last: v11, Capability: "tasks"},
	{Name: mcp.MethodCancelTask, Sender: Either, First: v11, Last: v11, Capability: "tasks.cancel"},
	{Name: mcp.MethodListTasks, Sender: Either, First: v11, Last: v11, Capability: "tasks.list"},

	{Name: mcp.NotificationInitialized, Sender: Client, Notification: true, First: v2024, Last: v11},
	{Name: mcp.NotificationCancelled, Sender: Either, Notification: true, First: v2024},
	{Name: mcp.NotificationProgress, Sender: Either, Notification: true, First: v2024, Since2026: Server},
	{Name: mcp.NotificationRootsListChanged, Sender: Client, Notification: true, First: v2024, Last: v11},
	{Name: mcp.NotificationMessage, Sender: Server, Notification: true, First: v2024},
	{Name: mcp.NotificationToolListChanged, Sender: Server, Notification: true, First: v2024},
	{Name: mcp.NotificationPromptListChanged, Sender: Server, Notification: true, First: v2024},
	{Name: mcp.NotificationResourceListChanged, Sender: Server, Notification: true, First: v2024},
	{Name: mcp.NotificationResourceUpdated, Sender: Server, Notification: true, First: v2024},
	{Name: mcp.NotificationElicitationComplete, Sender: Server, Notification: true, First: v11, Last: v11},
	{Name: mcp.NotificationTaskStatus, Sender: Either, Notification: true, First: v11, Last: v11},
	{Name: mcp.NotificationSubscriptionsAcknowledged, Sender: Server, Notification: true, First: modern},
}

// Methods returns the method table.
func Methods() []Method { return append([]Method(nil), methods...) }

// Lookup returns the row of a method, or nil if there is none.
func Lookup(name string) *Method {
	for i := range methods {
		if methods[i].Name == name {
			return &methods[i]
		}
	}
	return nil
}

// FromClient reports whether a client of revision r can send a method as a request, or as a notification: a method of
// the protocol, or one that the revision leaves to extensions.
func FromClient(method string, r mcp.Revision, notification bool) bool {
	row, official := Lookup(method), officialMethods[method] != ""
	switch {
	case strings.HasPrefix(method, NotificationPrefix) != notification:
		return false
	case official && r.Modern(), !official && row == nil:
		return true
	}
	return row != nil && row.In(r) && (!notification || row.From(r)&Client != 0)
}

// IsNotification reports whether method is the name of a notification, of the protocol or of
// an extension.
func IsNotification(method string) bool { return strings.HasPrefix(method, NotificationPrefix) }

// NameMember returns the key in a request's params that identifies the target, such as
// the name of the tool. It returns "" for a method without such a key. Over HTTP, the
// Mcp-Name header repeats its value (2026-07-28, basic/transports/streamable-http).
func NameMember(method string) string {
	switch method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		return "name"
	case mcp.MethodReadResource:
		return "uri"
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		return "taskId"
	}
	return ""
}

// LogOf returns the params of a notifications/message. It reports false for a malformed message and an
// unknown level, which the receiver must ignore.
func LogOf(m *jsonrpc.Message) (params mcp.LoggingMessageParams, ok bool) {
	err := schema.Decode(m.Raw, &params)
	return params, err == nil && params.Level.Known()
}

// CancelledID returns the id of the request that a notifications/cancelled message cancels.
// It returns the zero ID for a malformed message, which the receiver must ignore.
func CancelledID(m *jsonrpc.Message) (id jsonrpc.ID) {
	raw, _ := m.Params.Get("requestId")
	_ = id.UnmarshalJSON(raw) // a failure leaves id zero
	return id
}

// RequestedTTL returns the time to live of a task, given the field task in the params of its request:
// what the requestor asks for, at least minTTL and at most limit. The response reports it (2025-11-25,
// basic/utilities/tasks, TTL and Resource Management).
func RequestedTTL(task []byte, limit time.Duration) (time.Duration, error) {
	if len(task) == 0 || task[0] != '{' {
		return 0, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.task must be an object")
	}
	raw, ok := jsonrpc.Get(task, "ttl")
	if !ok || string(raw) == "null" {
		return limit, nil
	}
	ms, ok := jsonscan.Integer(raw)
	if !ok || ms <= 0 {
		return 0, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.task.ttl must be a positive number of milliseconds")
	}
	if ms >= limit.Milliseconds() {
		return limit, nil
	}
	return min(max(time.Duration(ms)*time.Millisecond, minTTL), limit), nil
}

// minTTL is the shortest life of a task that a client can use.
const minTTL = time.Second

// WithTask returns params, a JSON object that has been checked, with the request to run as a task for
// ttl.
func WithTask(params []byte, ttl time.Duration) []byte {
	return withMember(params, "task", append(strconv.AppendInt([]byte(`{"ttl":`), max(ttl.Milliseconds(), 1), 10), '}'))
}

// WithRelatedTask returns object with the id of a task in its _meta. object is the params or the
// result of a message that belongs to the task, a JSON object that has been checked, or nil
// (2025-11-25, basic/utilities/tasks, Related Task Metadata).
func WithRelatedTask(object []byte, id string) []byte {
	related := jsonrpc.AppendString([]byte(`{"taskId":`), id)
	meta, _ := jsonrpc.Get(object, "_meta")
	return withMember(object, "_meta", withMember(meta, mcp.MetaRelatedTask, append(related, '}')))
}

// RelatedTask returns the value of mcp.MetaRelatedTask in the _meta of params or a result. It
// returns nil if there is none.
func RelatedTask(object []byte) []byte {
	meta, _ := jsonrpc.Get(object, "_meta")
	related, _ := jsonrpc.Get(meta, mcp.MetaRelatedTask)
	return related
}
