package host

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/principal"
)

var errNotConnected = errors.New("the server is not connected")

// callerWatches watch the resources of a server with CallerAuth for its callers, each with a client of that caller.
type callerWatches struct {
	mu      sync.Mutex
	by      map[principal.Principal]*callerWatch
	closed  bool
	running sync.WaitGroup // Add is called under mu before closed is set
}

// callerWatch is the watch of the resources to which one caller has subscribed.
type callerWatch struct {
	subscriptions subscriptions
	users         int // calls of Subscribe; guarded by callerWatches.mu
	cancel        context.CancelFunc
}

// watchFor returns the subscriptions of the caller of ctx, and a function that ends their use.
func (s *supervisor) watchFor(ctx context.Context) (*subscriptions, func(), error) {
	who := callerOf(ctx).Principal
	if who.IsAnonymous() {
		return nil, nil, ErrAnonymousCaller
	}
	a := &s.callerWatches
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, ErrClosed
	}
	w := a.by[who]
	if w == nil {
		if a.by == nil {
			a.by = make(map[principal.Principal]*callerWatch)
		}
		w = new(callerWatch)
		a.by[who] = w
		var watching context.Context
		watching, w.cancel = context.WithCancel(s.ctx)
		a.running.Go(func() { s.watchForCaller(watching, who, &w.subscriptions) })
	}
	w.users++
	return &w.subscriptions, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if w.users--; w.users == 0 {
			w.cancel()
			delete(a.by, who)
		}
	}, nil
}

// active reports whether a caller has subscriptions.
func (a *callerWatches) active() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.by) > 0
}

// close waits for the watches, whose context must have ended.
func (a *callerWatches) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.running.Wait()
}

// watchForCaller watches the resources of one caller until ctx ends. It tries again after a failure, for example because the
// caller needs a login.
func (s *supervisor) watchForCaller(ctx context.Context, who principal.Principal, subs *subscriptions) {
	for ctx.Err() == nil {
		uris, changed := subs.uris()
		if len(uris) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		} else if err := s.watchOnce(ctx, who, subs, uris, changed); err != nil {
			s.logger.Debug("watch of a caller ended", "error", err)
			sleep(ctx, rewatchDelay, changed)
			continue
		}
		sleep(ctx, subscribeDelay, nil)
	}
}

// watchOnce watches resources with the client of a caller until changed is closed or the watch fails.
func (s *supervisor) watchOnce(ctx context.Context, who principal.Principal, subs *subscriptions, uris []string, changed <-chan struct{}) error {
	if !s.snapshot().State.Usable() {
		return errNotConnected
	}
	// The authorizer may have a token that was issued for the last request of the caller.
	ctx = auth.NewContext(ctx, &auth.Info{Principal: who, Scopes: strings.Fields(s.callerLists.latest(who).scopes)})
	c, release, err := s.clientFor(ctx, s.current())
	if err != nil {
		return err
	}
	defer release()
	return watchURIs(ctx, c, subs, uris, changed)
}

// latest returns the key of the last request of a principal.
func (l *callerLists) latest(who principal.Principal) listKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := l.order.Front(); e != nil; e = e.Next() {
		if key := e.Value.(*callerEntry).key; key.owner == who {
			return key
		}
	}
	return listKey{owner: who}
}

// keyOf returns the key of the caller of ctx.
func (l *callerLists) keyOf(ctx context.Context) listKey {
	caller := callerOf(ctx)
	if auth.FromContext(ctx) == nil && call.From(ctx) == nil { // a subscription, which has no token
		return l.latest(caller.Principal)
	}
	return listKeyOf(caller)
}
