package server

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// CloseStream ends the connection on which the client waits for the response, while the handler
// continues, so that a long call does not occupy a connection. The client reconnects after
// retry, which is at most two minutes (a longer one is reduced), and then receives the messages
// that were sent meanwhile. If the call has not ended by then, the client waits again, and the
// handler may close the stream again (2025-11-25, basic/transports, Sending Messages to the
// Server).
//
// Messages are stored for five minutes: at most 1,000 messages of a call and 4 MiB of a session.
// If messages are lost, the client receives an error when it reconnects, and the result of the
// call is lost.
//
// CloseStream returns [ErrUnsupported] and has no effect if the revision is not 2025-11-25, if
// the transport is not HTTP, if the client does not accept event streams, or if the
// http.ResponseWriter does not support Hijack (HTTP/1) or write deadlines (HTTP/2). A handler
// may ignore that error. CloseStream returns nil if the client has disconnected already,
// call.ErrCallDone after the call has ended, and call.ErrNoCall outside of a handler. Safe for
// concurrent use.
func CloseStream(ctx context.Context, retry time.Duration) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	return c.CloseStream(ctx, retry)
}
