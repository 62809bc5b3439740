package host

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
)

// NotifyRootsChanged tells servers that roots have changed (2025-11-25, client/roots, Root List Changes). With a
// [Caller] in ctx, it tells the servers on the connections of this caller; without one, it tells all servers that the
// roots of Host.Dialer have changed. It returns at once, and sends the notifications in the background.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
func (h *Host) NotifyRootsChanged(ctx context.Context) {
	caller := callerFrom(ctx)
	for _, s := range h.all() {
		own, isLocal := s.usable(), s.local&rootsInput != 0
		switch {
		case caller != nil && !isLocal:
			s.notifyRootsOf(caller, own)
		case caller == nil && isLocal && s.config.Roots == nil:
			if own != nil {
				s.own.roots.notify(s, own)
			}
			s.pool.each(func(c *connection) { c.roots.notify(s, c.client) })
		}
	}
}

// notifyRootsOf notifies the server that the roots of a caller have changed, if it can ask for them.
func (s *supervisor) notifyRootsOf(caller *Caller, own *client.Client) {
	if own == nil {
		return
	}
	key, err := s.audienceOf(caller, own)
	switch {
	case err != nil: // there is no connection for the caller
	case key != everyone:
		s.pool.each(func(c *connection) {
			// Another replica may have received the notification, and with it the headers of the caller.
			if c.key.user == key.user && c.key.session == key.session {
				c.roots.notify(s, c.client)
			}
		})
	case callerFrom(s.own.context(context.Background())) != nil:
		s.own.roots.notify(s, own)
	}
}

// haveRoots notifies the server that the roots have changed, if it requested them before there was a caller.
func (c *connection) haveRoots(s *supervisor, caller *Caller, own *client.Client) {
	if caller == nil || caller.Roots == nil || s.local&rootsInput != 0 {
		return
	}
	c.mu.Lock()
	rootless := c.rootless && !c.several
	c.rootless = c.rootless && !rootless
	c.mu.Unlock()
	if rootless {
		c.roots.notify(s, own)
	}
}

// usable returns the client for everyone if the server is ready, or nil.
func (s *supervisor) usable() *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.State.isUsable() {
		return nil
	}
	return s.client
}

// rootsTimeout limits the time to send one notification.
const rootsTimeout = 10 * time.Second

// rootsNotifier sends the notifications on one connection to a server, one at a time. Notifications that become
// due in the meantime are merged into one. It is safe for concurrent use.
type rootsNotifier struct {
	mu      sync.Mutex
	sending bool
	again   bool
}

// notify sends a notification in the background. It does nothing when the Host is closed.
func (r *rootsNotifier) notify(s *supervisor, c *client.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again = true; r.sending {
		return
	}
	r.sending = s.host.run(func() {
		for r.next() {
			ctx, cancel := context.WithTimeout(s.ctx, rootsTimeout)
			if err := c.NotifyRootsChanged(ctx); err != nil {
				s.logger.Debug("cannot notify the server of changed roots", "error", err)
			}
			cancel()
		}
	})
}

// next reports whether another notification is due.
func (r *rootsNotifier) next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sending, r.again = r.again, false
	return r.sending
}

// run runs f in a goroutine that Close waits for. It reports false if the Host is closed.
func (h *Host) run(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.running.Go(f)
	return true
}
