package server

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
)

// CloseStream ends the connection on which the client waits for the call, while the
// handler goes on: a call that takes long need not hold one. The client is told to
// come back after retry, which is at most two minutes, and gets then what was sent
// meanwhile; if the call is not over, it waits again, and the handler may close the
// stream again (2025-11-25, basic/transports, Sending Messages to the Server). What is
// sent is held for five minutes, 1,000 messages of a call and 4 MiB of a session; a
// client that has missed more is told so when it is back, and its call is lost.
//
// It returns ErrUnsupported, and nothing happens, where a connection is not the
// call's own (on a byte stream), where it cannot be left (any revision but 2025-11-25,
// or behind an http.ResponseWriter that can be neither hijacked nor reset), and for a
// client that takes no event streams. A handler may ignore that. If the client is away
// already, it returns nil. Safe for concurrent use.
func CloseStream(ctx context.Context, retry time.Duration) error {
	c := rpc.From(ctx)
	if c == nil {
		return rpc.ErrNoCall
	}
	return c.CloseStream(ctx, retry)
}
