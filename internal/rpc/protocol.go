package rpc

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// Protocol is the seam between the transports and the eras. A transport turns bytes into messages, and sends what a
// Protocol appends. A Protocol turns the messages of one client into calls, and the outcomes of calls into messages.
// There are two:
//
//   - modern.Server (internal/serve/modern) implements 2026-07-28. Each request describes its client in _meta, so the
//     only state is the ids in flight on a connection.
//   - legacy.Session (internal/serve/legacy) implements the revisions before. A handshake describes the client for all
//     messages after it.
//
// A transport chooses by the era that [revision.Classify] returns for a message. It calls the methods for a request in
// this order:
//
//	Server.serve (httpserver)       turn.receive (streamserver)
//	                                InOrder, before anything else
//	NewCall                         NewCall
//	Begin                           Begin, in the order in which the messages arrive
//	AppendReply, at once            AppendReply: at once if InOrder is true, otherwise in any goroutine, when the
//	                                request has its turn
//
// An error of NewCall or Begin is the response, and ends this order. After Begin has returned nil, the transport must
// call AppendReply, or [Inflight.End] if it gives up before that. Batches and the HTTP+SSE pair call the methods of a
// Session in the same order, but check the scopes of all calls between NewCall and Begin ([Engine.Authorize]).
//
// ServeNotification is called for a notification, after the transport has passed it to Session.ReceiveNotification,
// which reads those of the protocol: cancellations, for example. Responses go to Session.ReceiveResponse: the server
// sends no requests in 2026-07-28.
type Protocol interface {
	// NewCall returns the call of a request. It reads what describes the client, and does not wait. The error is the
	// response.
	NewCall(from Sender, m *jsonrpc.Message, class revision.Class) (*Call, *jsonrpc.Error)
	// Begin puts a call of NewCall in flight; see [Inflight.Accept]. It does not wait. Ctx is the parent of the
	// handler's context. The handler sends its notifications on stream, which is nil if the client receives none. The
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

// Binding gives access to the parts of a message that a transport repeats outside of the body, where intermediaries can
// read them: the headers of HTTP in 2026-07-28. A server must compare them with the body.
type Binding interface {
	// Check compares the repeated parts with m.
	Check(m *jsonrpc.Message) *jsonrpc.Error
	// Param returns the decoded text of the parameter of a tool with this name, and whether it is there.
	// The error is a *jsonrpc.Error for the client: the parameter is repeated or malformed.
	Param(name string) (text string, ok bool, err error)
}
