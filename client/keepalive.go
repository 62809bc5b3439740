package client

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// defaultKeepAlive is how often sessions over HTTP are pinged unless Dialer.KeepAlive
// says otherwise.
const defaultKeepAlive = 30 * time.Second

// maxUnanswered is how many pings in a row a server may leave unanswered.
const maxUnanswered = 2

// keepAlive is how often a link is pinged; 0 for never. A process is watched by its
// exit, and what is sent over HTTP in 2026-07-28 has no connection to keep.
func (d *Dialer) keepAlive(target Target, l *link) time.Duration {
	switch target.(type) {
	case *CommandTarget:
		return 0
	case *HTTPTarget:
		if l.revision.Modern() {
			return 0
		}
		if d.KeepAlive == 0 {
			return defaultKeepAlive
		}
	}
	return max(d.KeepAlive, 0)
}

// keepAlive pings a link's server for as long as the link lasts. A server from which
// nothing comes any more while it is pinged is lost.
func (c *Client) keepAlive(l *link, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	heard, since, unanswered := l.heard(), time.Now(), 0
	for {
		select {
		case <-tick.C:
		case <-l.dropped:
			return
		case <-c.life.Done():
			return
		}
		if now := l.heard(); now != heard { // whoever talks need not be asked
			heard, since, unanswered = now, time.Now(), 0
			continue
		}
		err := c.pingLink(ctx, l)
		if ctx.Err() != nil || l.failed() != nil {
			return
		}
		if errors.Is(err, httpwire.ErrSessionGone) {
			c.drop(l)
			return
		}
		var late *call.TimeoutError
		if now := l.heard(); !errors.As(err, &late) || now != heard {
			// It has said something, or it cannot be reached at all, which is found out by
			// the next request.
			heard, since, unanswered = now, time.Now(), 0
			continue
		}
		if unanswered++; unanswered == maxUnanswered {
			silent := &call.SilentError{For: time.Since(since)}
			c.dialer.Logger.Warn("a server does not answer any more", "server", c.target.String(), "error", silent)
			l.lose(silent)
			c.drop(l)
			return
		}
	}
}

func (c *Client) pingLink(ctx context.Context, l *link) error {
	method := mcp.MethodPing
	if l.revision.Modern() {
		method = mcp.MethodDiscover
	}
	_, err := l.call(ctx, &rpc.Request{Method: method, Timeout: c.dialer.Timeouts.Ping, MaxTimeout: c.dialer.Timeouts.Max})
	return err
}

// drop puts away a link of which somebody has found out that it is of no more use.
func (c *Client) drop(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(l)
}
