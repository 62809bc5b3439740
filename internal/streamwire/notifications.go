package streamwire

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
)

// startNotifications begins to deliver the session's notifications and to ping its
// client. It does so once, and not during a shutdown.
func (c *connection) startNotifications(ctx context.Context) {
	if c.notifying || !c.session.Initialized() || !c.begin() {
		return
	}
	c.notifying = true
	queue := c.session.Notifications() // before the next message, so that no change is missed
	go c.deliver(ctx, queue)
}

func (c *connection) deliver(ctx context.Context, queue *legacy.NotificationQueue) {
	defer c.running.Done()
	defer queue.Close()
	var tick <-chan time.Time
	if c.KeepAlive > 0 {
		ticker := time.NewTicker(c.KeepAlive)
		defer ticker.Stop()
		tick = ticker.C
	}
	pinger := c.session.NewPinger(c.KeepAlive)
	for {
		select {
		case <-queue.Wake():
			for _, notification := range queue.Take() {
				c.write(ctx, notification)
			}
		case <-tick:
			if err := c.keepAlive(ctx, &pinger); err != nil {
				c.Logger.WarnContext(ctx, "client does not answer pings: closing its connection", "error", err)
				c.fail(err)
				return
			}
		case <-c.closing.Done():
			return
		}
	}
}

// keepAlive pings the client if necessary. It returns an error if the client is lost.
func (c *connection) keepAlive(ctx context.Context, pinger *legacy.Pinger) error {
	if c.paused.Load() { // messages of the client may be waiting unread
		*pinger = c.session.NewPinger(c.KeepAlive)
		return nil
	}
	ping, err := pinger.Next(ctx)
	if ping != nil {
		// A client that does not read cannot answer: do not wait longer for it.
		ctx, cancel := context.WithTimeout(ctx, c.KeepAlive)
		defer cancel()
		c.write(ctx, ping)
	}
	return err
}
