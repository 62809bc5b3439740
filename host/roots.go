package host

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
)

// NotifyRootsChanged notifies the servers with sessions that the roots have changed (2025-11-25, client/roots, Root
// List Changes). It returns at once, and sends the notifications in the background.
//
// In a handler or middleware of a server.Server, the roots are those of its client: NotifyRootsChanged
// notifies the servers that receive them because of the gateway. A server whose client several sessions share is
// notified while this session is the only one that is connected, because the notification does not say whose roots have
// changed. Outside of a handler, the roots are those of Host.Dialer, and all servers that receive these are notified.
//
// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
// 2027-07-28 on. Servers take directories from arguments of tools, URIs or their configuration.
func (h *Host) NotifyRootsChanged(ctx context.Context) {
	c := rpc.From(ctx)
	for _, s := range h.all() {
		switch {
		case c != nil:
			if s.forwardsRoots() {
				s.notifyRootsOf(ctx, c)
			}
		case s.local&rpc.RootsInput != 0 && s.config.Roots == nil:
			if shared := s.usable(); shared != nil {
				s.roots.notify(s, shared)
			}
			s.callers.each(func(caller *callerClient) { caller.roots.notify(s, caller.client) })
		}
	}
}

// forwardsRoots reports whether the server receives the roots of the clients of the program.
func (s *supervisor) forwardsRoots() bool {
	return s.host.forwards && s.local&rpc.RootsInput == 0
}

// notifyRootsOf notifies the server that the roots of the session of a call have changed.
func (s *supervisor) notifyRootsOf(ctx context.Context, c *rpc.Call) {
	shared, caller := s.usable(), c.Caller()
	if shared == nil || !caller.Session {
		return
	}
	if !s.perCaller(shared) {
		all := &s.common
		if user, ok := s.userOf(caller, shared); ok {
			shared, all = nil, nil
			s.callers.each(func(own *callerClient) {
				if own.key == user.Key {
					shared, all = own.client, &own.common
				}
			})
		}
		if all == nil { // the user has no client
			return
		}
		all.sessions.add(ctx, caller)
		if key, _, _ := all.sessions.only(); key == caller.Key {
			all.roots.notify(s, shared)
		}
		return
	}
	if s.config.CallerAuth != nil {
		var err error
		if caller, err = authenticated(ctx, caller); err != nil { // the caller has no client
			return
		}
	}
	s.callers.each(func(own *callerClient) {
		if own.key == caller.Key {
			own.roots.notify(s, own.client)
		}
	})
}

// usable returns the shared client of a server that is ready, or nil.
func (s *supervisor) usable() *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.State.isUsable() {
		return nil
	}
	return s.client
}

// each calls f with each client that is dialled, with mu held.
func (a *callers) each(f func(*callerClient)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, own := range a.byKey {
		select {
		case <-own.dialled:
			if own.client != nil {
				f(own)
			}
		default: // it requests the roots later
		}
	}
}

// rootsTimeout limits the time to send one notification.
const rootsTimeout = 10 * time.Second

// rootsNotifier sends the notifications for one client of a server, one at a time. Notifications that are due
// meanwhile become one. It is safe for concurrent use.
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

// withOnlySession returns the context of a request for roots. If the request belongs to no call or session, it is for
// the session that uses the client, if that is the only one.
func (s *supervisor) withOnlySession(ctx context.Context) context.Context {
	if !s.forwardsRoots() || rpc.From(ctx) != nil || sessionOf(ctx) != nil {
		return ctx
	}
	all := s.commonOf(ctx)
	_, only, count := all.sessions.only()
	if only == nil {
		all.rootless.Store(count == 0)
		return ctx
	}
	return withSession(ctx, only)
}

// shares records that a session uses a client with others. If the server has requested the roots before there was a
// session, it is notified that there are other roots now.
func (all *common) shares(ctx context.Context, s *supervisor, caller rpc.Caller, c *client.Client) {
	if !caller.Session || !s.forwardsRoots() && s.config.Extensions == nil {
		return
	}
	if added := all.sessions.add(ctx, caller); added && all.rootless.Swap(false) {
		all.roots.notify(s, c)
	}
}
