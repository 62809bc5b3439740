package streamserver

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/internal/serve/legacy"
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
	k := keepAlive{pinger: c.session.NewPinger(c.KeepAlive)}
	for {
		select {
		case <-queue.Wake():
			for _, notification := range queue.Take() {
				c.write(ctx, notification)
			}
		case <-tick:
			if err := c.keepAlive(ctx, &k); err != nil {
				c.Logger.WarnContext(ctx, "client does not answer pings: closing its connection", "error", err)
				c.fail(err)
				return
			}
		case <-c.closing.Done():
			return
		}
	}
}

// keepAlive is the state of the pings to the client.
type keepAlive struct {
	pinger legacy.Pinger
	paused bool // reading was paused at the last tick
}

// keepAlive pings the client if necessary. It returns an error if the client is lost. While reading is paused, and at
// the first tick afterwards, messages of the client may be waiting unread, so the client does not count as silent.
func (c *connection) keepAlive(ctx context.Context, k *keepAlive) error {
	paused := c.paused.Load()
	if paused || k.paused {
		*k = keepAlive{c.session.NewPinger(c.KeepAlive), paused}
		return nil
	}
	ping, err := k.pinger.Next(ctx)
	if ping != nil {
		// A client that does not read cannot answer: do not wait longer for it.
		ctx, cancel := context.WithTimeout(ctx, c.KeepAlive)
		defer cancel()
		c.write(ctx, ping)
	}
	return err
}
