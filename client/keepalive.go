package client

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mcp/parley/call"
)

// defaultKeepAlive is the default of Dialer.KeepAlive for sessions over HTTP.
const defaultKeepAlive = 30 * time.Second

// maxUnanswered is the number of pings in a row that a server may leave unanswered.
const maxUnanswered = 2

// keepAliveInterval returns the interval in which a connection is checked, 0 for never. The
// exit of a process is noticed anyway, and over HTTP 2026-07-28 has no idle connections.
func (d *Dialer) keepAliveInterval(target Target, l *link) time.Duration {
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

// keepAlive checks a connection until it ends. If the server does not answer pings and sends
// nothing else, keepAlive ends the connection.
func (c *Client) keepAlive(l *link, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	received, since, unanswered := l.received(), time.Now(), 0
	for {
		select {
		case <-tick.C:
		case <-l.dropped:
			return
		case <-c.life.Done():
			return
		}
		if now := l.received(); now != received { // the connection is not idle
			received, since, unanswered = now, time.Now(), 0
			continue
		}
		_, err := l.call(ctx, c.pingRequest(l))
		if ctx.Err() != nil || l.failed() != nil {
			return
		}
		if isSessionLost(err) {
			c.drop(l)
			return
		}
		var late *call.TimeoutError
		if now := l.received(); !errors.As(err, &late) || now != received {
			// The server has sent something, or it cannot be reached, which the next request
			// will report.
			received, since, unanswered = now, time.Now(), 0
			continue
		}
		if unanswered++; unanswered == maxUnanswered {
			silent := &call.SilentError{For: time.Since(since)}
			c.dialer.Logger.Warn("closing a connection: the server does not answer pings", "server", c.target.String(), "error", silent)
			l.fail(silent)
			c.drop(l)
			return
		}
	}
}
