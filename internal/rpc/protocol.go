package rpc

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Protocol is a client by the rules of one era: its messages become calls, and the outcomes of calls become messages.
// The packages internal/serve/modern and internal/serve/legacy implement it. A class is what [revision.Classify]
// returns for the message.
type Protocol interface {
	// NewCall returns the call of a request. The error is the response.
	NewCall(from Sender, m *jsonrpc.Message, class revision.Class) (*Call, *jsonrpc.Error)
	// Begin puts a call of NewCall in flight; see [Inflight.Accept]. The handler sends its notifications on stream. The
	// error is the response.
	Begin(ctx context.Context, c *Call, stream Stream) *jsonrpc.Error
	// AppendReply serves a call in flight and appends the response to *dst; see [Engine.AppendReply].
	AppendReply(dst *[]byte, c *Call) (reported *jsonrpc.Error)
	// InOrder reports whether a request must be served before the next message is read, because that depends on it.
	InOrder(m *jsonrpc.Message) bool
	// ServeNotification runs the handler of an extension's notification and returns when it returns. It ignores other
	// notifications.
	ServeNotification(ctx context.Context, from Sender, m *jsonrpc.Message, class revision.Class)
}

// Sender is what a transport knows about the sender of a message. A session ignores it, because it knows its client.
type Sender struct {
	Who     principal.Principal
	Source  string  // distinguishes anonymous callers; see call.Call
	Binding Binding // nil if the transport repeats no parts of the message
}

// Binding gives access to the parts of a message that a transport repeats outside of the body, as HTTP does in headers.
type Binding interface {
	Mirror
	// Check compares the repeated parts with m.
	Check(m *jsonrpc.Message) *jsonrpc.Error
}
