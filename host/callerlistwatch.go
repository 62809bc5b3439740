package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/principal"
)

var (
	errListsUnreported = errors.New("the server does not report changes of its lists to the caller")
	errNotConnected    = errors.New("the server is not connected")
)

// WatchLists calls changed whenever a server with CallerAuth has changed the lists of the caller of ctx, until ctx ends
// or the Host is closed. [Client.Status] then returns the new lists. The watch uses the caller's connection, and starts
// again when it fails, for example because the caller needs a login. A Host watches the lists and resources of at most
// 128 callers of one server at a time; further calls of WatchLists wait. Changes that occur while changed runs are
// merged.
//
// If another server replaces this one, WatchLists continues with it; see [Host.SetServers]. WatchLists returns nil when
// ctx ends. It returns [ErrUnknown] for an unknown or removed server, ErrAnonymousCaller, or call.ErrClosed.
func (c Client) WatchLists(ctx context.Context, changed func()) error {
	h, server := c.host, c.server
	who := callerOf(ctx).Principal
	if who == principal.Anonymous {
		return ErrAnonymousCaller
	}
	for {
		s := h.find(server)
		switch {
		case h.ctx.Err() != nil:
			return errClosed
		case s == nil:
			return unknown("server", server)
		}
		s.watchListsFor(ctx, who, changed)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Outdate makes the Host request the lists of servers with CallerAuth again when they are next used, for the callers
// for whom of returns true. Call it when another process knows that the lists have changed. Outdate reports whether
// this Host may have returned old lists to one of these callers. It is safe for concurrent use; of must not block.
func (h *Host) Outdate(of func(caller principal.Principal) bool) (found bool) {
	for _, s := range h.all() {
		found = s.pool.outdate(of) || found
	}
	return found
}

// watchListsFor watches the lists of a user until ctx ends or another server replaces s.
func (s *supervisor) watchListsFor(ctx context.Context, who principal.Principal, changed func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.serving, cancel)()
	failures := 0
	var reported *callerOffer // the offer that the user knows; nil if unknown
	for ctx.Err() == nil {
		begin, before := time.Now(), s.pool.latest(who).offer
		err := s.watchLists(ctx, who, &reported, changed)
		if ctx.Err() != nil {
			return
		}
		s.logger.Debug("watch of the lists of a caller ended", "error", err)
		if failures++; time.Since(begin) >= stable {
			failures = 1
		}
		wait := min(rewatchDelay<<min(failures-1, 10), maxBackoff)
		if errors.Is(err, errListsUnreported) || errors.Is(err, errors.ErrUnsupported) {
			wait = maxBackoff
		}
		s.pool.awaitNews(ctx, who, before, jitter(wait))
	}
}

// awaitNews waits for d, or until lists other than before are received for a user, for example after a login.
func (a *pool) awaitNews(ctx context.Context, who principal.Principal, before *callerOffer, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for ctx.Err() == nil {
		listed := a.listed.wait()
		if a.latest(who).offer != before {
			return
		}
		sleep(ctx, forever, listed)
	}
}

// watchLists watches the lists of a user on one connection, and requests them again after changes, until ctx ends, or
// the watch or a request fails; the next watch then requests them first. It calls changed if they differ from
// *reported, even if a request of the user received them first.
func (s *supervisor) watchLists(ctx context.Context, who principal.Principal, reported **callerOffer,
	changed func()) error {
	if s.config.CallerAuth == nil {
		return errListsUnreported
	}
	if err := s.pool.awaitWatch(ctx, who); err != nil {
		return err
	}
	defer s.pool.endWatch(who)
	if *reported == nil {
		*reported = s.pool.latest(who).offer
	}
	return s.watchAs(ctx, who, func(ctx context.Context, c *client.Client) error {
		filter := reportedBy(c)
		if !filter.Tools && !filter.Prompts && !filter.Resources {
			return errListsUnreported
		}
		watching, cancel := context.WithCancelCause(ctx)
		updated, news := make(chan struct{}), make(chan struct{}, 1)
		defer func() {
			cancel(nil)
			<-updated
		}()
		go func() {
			defer close(updated)
			for {
				select {
				case <-news:
				case <-watching.Done():
					return
				}
				if err := s.updateLists(watching, who, reported, changed); err != nil {
					cancel(err)
					return
				}
				sleep(watching, relistInterval, nil)
			}
		}()
		for _, err := range c.Watch(watching, filter, client.WithoutReconnect()) {
			if err != nil {
				return err
			}
			select {
			case news <- struct{}{}:
			default:
			}
		}
		return context.Cause(watching)
	})
}

// updateLists requests the lists of a user again, and calls changed if they differ from *reported.
func (s *supervisor) updateLists(ctx context.Context, who principal.Principal, reported **callerOffer,
	changed func()) error {
	s.pool.outdate(func(user principal.Principal) bool { return user == who }) // in other sessions, too
	now, outdated, err := s.listsFor(ctx, 0)
	if err = errors.Join(err, outdated); err != nil {
		return fmt.Errorf("cannot update the lists of the caller: %w", err)
	}
	before := *reported
	if *reported = now; before != nil && now.digest != before.digest {
		changed()
	}
	return nil
}

// beginWatch reports whether a watch for a user can begin; if so, the caller must call endWatch. The watches of a user
// keep one connection in use while they last, so at most half of the connections may serve watches; the rest is for
// requests. mu must be held.
func (a *pool) beginWatch(who principal.Principal) bool {
	if a.watched[who] == 0 && len(a.watched) >= a.max/2 {
		return false
	}
	a.watched[who]++
	return true
}

// endWatch ends a watch.
func (a *pool) endWatch(who principal.Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched[who]--; a.watched[who] == 0 {
		delete(a.watched, who)
		a.unwatched.notify()
	}
}

// awaitWatch waits until a watch for a user can begin.
func (a *pool) awaitWatch(ctx context.Context, who principal.Principal) error {
	for {
		ended := a.unwatched.wait()
		a.mu.Lock()
		begun := a.beginWatch(who)
		a.mu.Unlock()
		if begun {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mayWatch returns an error if another subscription of the user would exceed the limit.
func (a *pool) mayWatch(who principal.Principal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched[who] == 0 && len(a.watched) >= a.max/2 {
		return errTooManyWatched()
	}
	return nil
}

func errTooManyWatched() error {
	return &call.OverloadError{Limit: "callers with subscriptions at the server", RetryAfter: time.Minute}
}

// userWatch watches the resources that a user has subscribed to at a server with CallerAuth.
type userWatch struct {
	subscriptions subscriptions
	uses          int // number of Subscribe calls; guarded by pool.mu
	cancel        context.CancelFunc
}

// watchFor returns the subscriptions of a user, and a function that releases them.
func (a *pool) watchFor(who principal.Principal) (*subscriptions, func(), error) {
	if who == principal.Anonymous {
		return nil, nil, ErrAnonymousCaller
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, errClosed
	}
	w := a.watches[who]
	if w == nil {
		if !a.beginWatch(who) {
			return nil, nil, errTooManyWatched()
		}
		w = new(userWatch)
		a.watches[who] = w
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(a.of.ctx)
		a.closing.Go(func() {
			a.of.watchResources(ctx, &w.subscriptions, func(uris []string, changed <-chan struct{}) error {
				return a.of.watchAs(ctx, who, func(ctx context.Context, c *client.Client) error {
					return watchURIs(ctx, c, &w.subscriptions, uris, changed)
				})
			})
		})
	}
	w.uses++
	return &w.subscriptions, func() {
		a.mu.Lock()
		last := w.uses == 1
		if w.uses--; last {
			w.cancel()
			delete(a.watches, who)
		}
		a.mu.Unlock()
		if last {
			a.endWatch(who)
		}
	}, nil
}

// watchAs calls watch with a client of a user.
func (s *supervisor) watchAs(ctx context.Context, who principal.Principal,
	watch func(context.Context, *client.Client) error) error {
	if !s.snapshot().State.isUsable() {
		return errNotConnected
	}
	ctx = onBehalfOf(ctx, who, s.pool.latest(who).scopes)
	_, c, release, err := s.connectionFor(ctx, s.current())
	if err != nil {
		return err
	}
	defer release()
	return watch(ctx, c)
}
