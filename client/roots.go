package client

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
)

// NotifyRootsChanged notifies the server of a session that the result of Dialer.Roots has
// changed (2025-11-25, client/roots, Root List Changes). It returns when the notification is
// sent. In 2026-07-28 it does nothing: servers request the roots when they need them.
//
// Deprecated: 2026-07-28 deprecates roots. Pass directories as arguments of tools or in the
// configuration of the server.
func (c *Client) NotifyRootsChanged(ctx context.Context) error {
	l, err := c.connected(ctx)
	if err != nil {
		return err
	}
	defer func() { c.release(l, l.failed() != nil) }()
	if l.revision.Modern() || c.dialer.Roots == nil {
		return nil
	}
	if err := l.notify(ctx, mcp.NotificationRootsListChanged, nil); err != nil {
		return fmt.Errorf("%s: %w", mcp.NotificationRootsListChanged, err)
	}
	return nil
}
