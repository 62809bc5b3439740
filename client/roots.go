package client

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
)

// NotifyRootsChanged tells the server of a session that Dialer.Roots would now return
// something else. In 2026-07-28 there is nothing to tell: servers ask for roots when
// they need them. It returns when the notification is sent; whether the server cares is
// unknown. (2025-11-25, client/roots, Root List Changes.)
//
// Deprecated: 2026-07-28 deprecates roots; give servers directories as arguments of
// their tools, or in their configuration.
func (c *Client) NotifyRootsChanged(ctx context.Context) error {
	l, err := c.connected(ctx)
	if err != nil {
		return err
	}
	defer func() { c.release(l, l.failed() != nil) }()
	if l.revision.Modern() || c.dialer.Roots == nil {
		return nil
	}
	if err := l.tell(ctx, mcp.NotificationRootsListChanged, nil); err != nil {
		return fmt.Errorf("%s: %w", mcp.NotificationRootsListChanged, err)
	}
	return nil
}
