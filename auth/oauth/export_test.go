package oauth

import (
	"context"
	"syscall"
)

// WatchEgress has every address that c connects to be seen first.
func WatchEgress(c *Client, see func(address string)) {
	c.egress = func(next control) control {
		return func(ctx context.Context, network, address string, conn syscall.RawConn) error {
			if next != nil {
				if err := next(ctx, network, address, conn); err != nil {
					return err
				}
			}
			see(address)
			return nil
		}
	}
}

var (
	BrowserCommand = browserCommand
	Public         = public
)
