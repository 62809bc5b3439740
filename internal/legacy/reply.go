package legacy

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// maxReplies limits the concurrent replies to requests of the server. Above it, the client
// stops reading until one is sent.
const maxReplies = 32

// replyTimeout is the time-out for sending one reply, with all attempts.
const replyTimeout = 30 * time.Second

// Pauses between the attempts to send a reply.
const (
	firstReplyPause = 100 * time.Millisecond
	maxReplyPause   = 5 * time.Second
)

// reply sends the response to a request of the server.
func (c *Client) reply(msg []byte) {
	select {
	case c.replies <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	sent := c.run(func() {
		defer func() { <-c.replies }()
		c.sendReply(msg)
	})
	if !sent {
		<-c.replies
	}
}

// sendReply sends the response to a request of the server, and reports whether it did.
func (c *Client) sendReply(msg []byte) bool {
	ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
	defer cancel()
	err := c.repeatReply(ctx, msg)
	if err != nil && c.ctx.Err() == nil {
		c.ignored.Log(c.ctx, c.logger, slog.LevelWarn, "cannot send a reply", slog.Any("error", err))
	}
	return err == nil
}

// repeatReply sends a reply, again after failures that may be temporary, because the handler of the
// server waits for it. A server ignores the second of two replies to one request.
func (c *Client) repeatReply(ctx context.Context, msg []byte) error {
	for pause := firstReplyPause; ; pause = min(2*pause, maxReplyPause) {
		err := c.Wire.Send(ctx, &rpc.Outgoing{Message: msg})
		if err == nil || !isTemporary(err) || c.Failed() != nil {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) // jitter, so that clients do not return all at once
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// isTemporary reports whether a message that could not be sent may be sent later: a server or a
// proxy does not serve it at the moment.
func isTemporary(err error) bool {
	if status, ok := errors.AsType[*call.StatusError](err); ok {
		return status.Status == 429 || status.Status >= 502 && status.Status <= 504
	}
	return errors.Is(err, call.ErrConnectionLost)
}
