package rpc

import (
	"context"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Protocol is a client by the rules of one era: its messages become calls, and the outcomes of calls become messages.
// The packages internal/serve/modern and internal/serve/legacy implement it. A class is what [revision.Classify]
// returns for the message.
type Protocol interface {
	// NewCall returns the call of a request. The error is the response.
	NewCall(m *jsonrpc.Message, class revision.Class) (*Call, *jsonrpc.Error)
	// Begin puts a call of NewCall in flight; see [Inflight.Accept]. The handler sends its notifications on stream. The
	// error is the response.
	Begin(ctx context.Context, c *Call, stream Stream) *jsonrpc.Error
	// AppendReply serves a call in flight and appends the response to *dst, also if a handler calls runtime.Goexit;
	// then AppendReply does not return. It appends nothing if the client has cancelled the request.
	AppendReply(dst *[]byte, c *Call)
	// InOrder reports whether a request must be served before the next message is read, because that depends on it.
	InOrder(m *jsonrpc.Message) bool
	// ServeNotification runs the handler of an extension's notification and returns when it returns. It ignores other
	// notifications.
	ServeNotification(ctx context.Context, m *jsonrpc.Message, class revision.Class)
}

// Accept returns the call of a request and puts it in flight: it calls NewCall and Begin.
func Accept(ctx context.Context, p Protocol, m *jsonrpc.Message, class revision.Class, stream Stream) (*Call,
	*jsonrpc.Error) {
	c, fault := p.NewCall(m, class)
	if fault == nil {
		fault = p.Begin(ctx, c, stream)
	}
	if fault != nil {
		return nil, fault
	}
	return c, nil
}
