package httpserver

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/serve/legacy"
)

// sendKeepAlive sends a ping if own is set and pings are enabled, and otherwise a comment.
// own means that the stream may carry requests of the server. The error is a
// *call.SilentError if the client does not answer pings, or that of conn.
func (s *Server) sendKeepAlive(ctx context.Context, own bool, pinger *legacy.Pinger, conn *eventStream) error {
	if !own || !s.Ping {
		return conn.comment()
	}
	ping, lost := pinger.Next(ctx)
	switch {
	case lost != nil:
		s.Logger.Warn("client does not answer pings", "error", lost)
		return lost
	case ping == nil:
		return conn.comment()
	}
	// Do not log the ping: a client that resumes the stream later gets a new one.
	return conn.write(ctx, func(dst []byte) []byte { return httpcodec.AppendEvent(dst, "", ping) })
}

// isSilent reports whether err means that the client does not answer pings.
func isSilent(err error) bool {
	var silent *call.SilentError
	return errors.As(err, &silent)
}
