package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/principal"
)

// maxListWatches is the maximum number of callers of one server whose lists are watched at a time. Each watch keeps
// the client of its caller in use, and half of the clients of callers remain for requests.
const maxListWatches = maxConnections / 2

var errListsUnreported = errors.New("the server does not report changes of its lists to the caller")

// WatchLists calls changed each time the lists that a server with CallerAuth sends to the caller of ctx have changed,
// until ctx ends or the Host is closed. [Client.Status] returns the new lists then. The watch uses a client of the
// caller. WatchLists repeats it when it fails, for example because the caller needs a login. A Host watches the lists
// of at most 128 callers of a server at a time; other calls of WatchLists wait. Changes that occur while changed runs
// are merged.
//
// If another server replaces the server, WatchLists continues with it; see [Host.SetServers]. WatchLists returns nil
// when ctx ends. The errors are [ErrUnknown], also when the server is removed, ErrAnonymousCaller, and
// call.ErrClosed.
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

// Outdate makes the Host request lists of servers with CallerAuth again when they are used the next time, for
// example because another process knows that they have changed: those of the callers for which the function of returns
// true. It reports whether this Host may have returned previous lists to one of these callers. It is safe for
// concurrent use; of must not block.
func (h *Host) Outdate(of func(caller principal.Principal) bool) (found bool) {
	for _, s := range h.all() {
		found = s.callerLists.outdate(of) || found
	}
	return found
}

// watchListsFor watches the lists of a caller until ctx ends or another server replaces s.
func (s *supervisor) watchListsFor(ctx context.Context, who principal.Principal, changed func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		select {
		case <-s.retired:
			cancel()
		case <-s.ctx.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	failures := 0
	var reported *callerOffer // what the caller knows; nil if that is unknown
	for ctx.Err() == nil {
		begin, before := time.Now(), s.callerLists.latestOffer(who)
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
		s.callerLists.awaitNews(ctx, who, before, jitter(wait))
	}
}

// awaitNews waits for d, or until other lists than before were received for a caller, for example after its login.
func (l *callerLists) awaitNews(ctx context.Context, who principal.Principal, before *callerOffer, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		received := l.received.wait()
		if l.latestOffer(who) != before {
			return
		}
		select {
		case <-received:
		case <-ctx.Done():
			return
		}
	}
}

// watchLists watches the lists of a caller on one connection, and requests them again after changes, until ctx ends,
// or the watch or a request fails: the next watch requests them first. It calls changed if they differ from *reported,
// also when a request of the caller has received them first.
func (s *supervisor) watchLists(ctx context.Context, who principal.Principal, reported **callerOffer,
	changed func()) error {
	switch {
	case s.config.CallerAuth == nil:
		return errListsUnreported
	case !s.snapshot().State.isUsable():
		return errNotConnected
	}
	select {
	case s.listWatches <- struct{}{}:
		defer func() { <-s.listWatches }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// The authorizer may have a token that was issued for the last request of the caller.
	ctx = auth.NewContext(ctx, &auth.Info{Principal: who, Scopes: strings.Fields(s.callerLists.latest(who).scopes)})
	_, c, release, err := s.connectionFor(ctx, s.current())
	if err != nil {
		return err
	}
	defer release()
	filter := reportedBy(c)
	if !filter.Tools && !filter.Prompts && !filter.Resources {
		return errListsUnreported
	}
	watching, cancel := context.WithCancelCause(ctx)
	updated := make(chan struct{})
	defer func() {
		cancel(nil)
		<-updated
	}()
	news := make(chan struct{}, 1) // there are changes
	if *reported == nil {
		*reported = s.callerLists.of(ctx)
	}
	go func() {
		defer close(updated)
		for {
			select {
			case <-news:
				now, err := s.updateListsOf(watching, who)
				if err != nil {
					cancel(err)
					return
				}
				before := *reported
				*reported = now
				if before != nil && now != before {
					changed()
				}
				sleep(watching, relistInterval, nil)
			case <-watching.Done():
				return
			}
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
}

// updateListsOf requests the lists of the caller of ctx.
func (s *supervisor) updateListsOf(ctx context.Context, who principal.Principal) (*callerOffer, error) {
	e := s.callerLists.entry(s.callerLists.keyOf(ctx))
	select {
	case e.turn <- struct{}{}: // a request that began before the change has ended
		<-e.turn
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.callerLists.outdate(func(owner principal.Principal) bool { return owner == who }) // also with other scopes
	now, outdated, err := s.callerLists.get(ctx, s, 0)
	if err = errors.Join(err, outdated); err != nil {
		return nil, fmt.Errorf("cannot update the lists of the caller: %w", err)
	}
	return now, nil
}

// latestOffer returns what the server offers to a principal, as far as it is known from its last request; otherwise
// nil.
func (l *callerLists) latestOffer(who principal.Principal) *callerOffer {
	key := l.latest(who)
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byCaller[key]; known != nil {
		return known.Value.(*callerEntry).offer
	}
	return nil
}
