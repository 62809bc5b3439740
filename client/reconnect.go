package client

import (
	"context"
	"maps"
	"slices"

	"github.com/parley-mcp/parley/call"
)

// connected returns the connection, and connects first if there is none. The caller must
// call release.
func (c *Client) connected(ctx context.Context) (*link, error) {
	if l, err := c.current(); l != nil || err != nil {
		return l, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-c.life.Done():
		return nil, call.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	if l, err := c.current(); l != nil || err != nil { // another request has connected
		return l, err
	}
	connecting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(call.ErrClosed) })()
	if err := c.awaitOldProcesses(connecting); err != nil {
		return nil, err
	}
	l, err := c.target.dial(connecting, c.dialer, c.memory)
	if err != nil {
		return nil, dialError(c.target, err)
	}
	recalled := c.memory != nil
	c.memory = nil
	c.filterIcons(&l.server.Info.Icons)
	c.restoreLogLevel(connecting, l)
	if c.last != nil && !recalled { // the server may have changed
		c.cache.forget()
	}
	if !c.adopt(l) {
		l.close()
		return nil, call.ErrClosed
	}
	return l, nil
}

// adopt makes l the current connection, with one user. It returns false after Close.
func (c *Client) adopt(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.link, c.last = l, l
	l.users, l.gone, l.dropped = 1, make(chan struct{}), make(chan struct{})
	c.open[l] = struct{}{}
	if interval := c.dialer.keepAliveInterval(c.target, l); interval > 0 {
		c.pinging.Go(func() { c.keepAlive(l, interval) })
	}
	return true
}

// awaitOldProcesses waits until earlier child processes have exited, so that two never run
// at the same time.
func (c *Client) awaitOldProcesses(ctx context.Context) error {
	if _, ok := c.target.(*CommandTarget); !ok {
		return nil
	}
	c.mu.Lock()
	old := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, l := range old { // all are retired, otherwise there would be a current connection
		select {
		case <-l.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// current returns the connection and counts a user of it. It retires a connection that has
// failed, and then returns nil.
func (c *Client) current() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, call.ErrClosed
	}
	if c.link == nil {
		return nil, nil
	}
	if c.link.failed() != nil {
		c.retire(c.link)
		return nil, nil
	}
	c.link.users++
	return c.link, nil
}

// release ends one use of a connection, and retires it if it is lost.
func (c *Client) release(l *link, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.users--
	if lost || l.lost {
		c.retire(l)
	}
}

// drop retires a connection.
func (c *Client) drop(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(l)
}

// retire stops the use of a connection for new requests and closes it in the background: at
// once if it has failed, otherwise when its last user has released it, for instance after
// the server has forgotten the session. c.mu must be held.
func (c *Client) retire(l *link) {
	if !l.lost {
		close(l.dropped)
	}
	l.lost = true
	if c.link == l {
		c.link = nil
	}
	if l.retired || c.life.Err() != nil || l.users > 0 && l.failed() == nil {
		return
	}
	l.retired = true
	go func() {
		defer close(l.gone)
		if err := l.close(); err != nil {
			c.dialer.Logger.Warn("cannot close a lost connection", "server", c.target.String(), "error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, l)
	}()
}
