package server

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// CloseStream ends the connection on which the client waits for the response, while the
// handler goes on, so that a long call does not occupy a connection. The client reconnects
// after retry, at most two minutes, and then receives the messages that were sent meanwhile.
// If the call has not ended by then, the client waits again, and the handler may close the
// stream again (2025-11-25, basic/transports, Sending Messages to the Server). Messages are
// stored for five minutes, up to 1,000 of a call and 4 MiB of a session; a client that misses
// more than that gets an error when it reconnects, and the result of the call is lost.
//
// It returns ErrUnsupported, without effect, where the call has no connection of its own (byte
// streams), where the stream cannot be resumed (all revisions but 2025-11-25, or an
// http.ResponseWriter that can be neither hijacked nor reset), and for a client that does not
// accept event streams; a handler may ignore that error. It returns nil if the client has
// disconnected already. Safe for concurrent use.
func CloseStream(ctx context.Context, retry time.Duration) error {
	c := rpc.From(ctx)
	if c == nil {
		return call.ErrNoCall
	}
	return c.CloseStream(ctx, retry)
}
