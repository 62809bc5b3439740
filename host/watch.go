package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

const (
	// openTimeout limits the wait for a server to confirm that it reports changes.
	// After that, the server is used without the confirmation.
	openTimeout = 5 * time.Second

	// relistInterval is the minimum time between two requests for the same list.
	relistInterval = 250 * time.Millisecond

	// pollInterval is the time between two requests for a list whose changes the server does not
	// report, or that could not be updated. The client answers the request itself while the list is
	// fresh (2026-07-28, server/utilities/caching).
	pollInterval = time.Minute

	// checkInterval is the time between two checks whether a server with sessions over HTTP still responds.
	checkInterval = 30 * time.Second

	// subscribeDelay is the time to collect changes of the subscriptions before they
	// are sent to the server, because each request contains all subscriptions.
	subscribeDelay = 50 * time.Millisecond

	// rewatchDelay is how long to wait before a watch that has ended starts again
	// while its server is still connected.
	rewatchDelay = 5 * time.Second
)

// watcher watches the changes of a server on one connection. It stops when the server
// goes down; each connection has its own watcher. One watch, for the lists, lasts as
// long as the watcher. Another, for resources, restarts when the subscriptions change.
type watcher struct {
	supervisor *supervisor
	client     *client.Client
	open       chan struct{} // closed when the server reports changes of its lists, or does not support that
	late       atomic.Bool   // the first list was requested before open was closed
	listing    chan struct{} // capacity 1: contains an element while a list is requested
	done       sync.WaitGroup
}

// startWatching returns once the server reports changes of its lists, so that no change
// is missed after a list is requested. Only run calls startWatching and stopWatching.
func (s *supervisor) startWatching(ctx context.Context, c *client.Client) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{supervisor: s, client: c, open: make(chan struct{}), listing: make(chan struct{}, 1)}
	s.watcher = w
	s.mu.Lock()
	s.stopWatcher = cancel
	s.mu.Unlock()
	w.done.Go(func() { w.watchLists(ctx) })
	if has := c.Server().Capabilities.Resources; has != nil && has.Subscribe {
		w.done.Go(func() {
			s.watchResources(ctx, &s.subscriptions, func(uris []string, changed <-chan struct{}) error {
				return watchURIs(ctx, c, &s.subscriptions, uris, changed)
			})
		})
	}
	w.done.Go(func() { w.pollLists(ctx) })
	w.done.Go(func() { w.checkSession(ctx) })
	timer := time.NewTimer(openTimeout)
	defer timer.Stop()
	select {
	case <-w.open:
	case <-timer.C:
		w.late.Store(true)
	}
}

func (s *supervisor) stopWatching() {
	if s.watcher != nil {
		s.mu.Lock()
		s.stopWatcher()
		s.mu.Unlock()
		s.watcher.done.Wait()
		s.watcher = nil
	}
}

func (w *watcher) watchLists(ctx context.Context) {
	opened := sync.OnceFunc(func() { close(w.open) })
	defer opened()
	filter := reportedBy(w.client)
	if !filter.Tools && !filter.Prompts && !filter.Resources {
		return
	}
	for first := true; ; first = false {
		for change, err := range w.client.Watch(ctx, filter, client.WithoutReconnect()) {
			if err != nil && w.unsupported(err) {
				return
			}
			opened()
			if err == nil && (!change.Resync || !first || w.late.Load()) {
				w.relist(ctx, change.Kind, client.WithRefresh())
			}
		}
		w.check(ctx)
		if !sleep(ctx, rewatchDelay, nil) {
			return
		}
	}
}

// check marks a server over HTTP as lost if it does not answer a ping. The loss of a process is noticed without
// one.
func (w *watcher) check(ctx context.Context) {
	if !w.supervisor.isHTTP() {
		return
	}
	if err := w.client.Ping(ctx); err != nil && isLost(ctx, err) {
		w.supervisor.lost(w.client, err)
	}
}

// checkSession checks a server with sessions over HTTP, so that its state is correct even without calls. Servers of
// 2026-07-28 have no sessions to keep; they are checked when a subscription ends or a list is requested.
func (w *watcher) checkSession(ctx context.Context) {
	if w.client.Revision().Modern() {
		return
	}
	for sleep(ctx, checkInterval, nil) {
		w.check(ctx)
	}
}

// reportedBy returns the lists whose changes the server of a client reports.
func reportedBy(c *client.Client) client.WatchFilter {
	has := c.Server().Capabilities
	return client.WatchFilter{
		Tools:     has.Tools != nil && has.Tools.ListChanged,
		Prompts:   has.Prompts != nil && has.Prompts.ListChanged,
		Resources: has.Resources != nil && has.Resources.ListChanged,
	}
}

// pollLists updates lists that could not be updated before and, on a modern server that does not report their
// changes, lists that are no longer fresh.
func (w *watcher) pollLists(ctx context.Context) {
	var unreported client.ChangeKind
	filter := reportedBy(w.client)
	for kind, reports := range map[client.ChangeKind]bool{
		client.ToolsChanged: filter.Tools, client.PromptsChanged: filter.Prompts,
		client.ResourcesChanged: filter.Resources,
	} {
		if !reports && w.client.Revision().Modern() {
			unreported |= kind
		}
	}
	for sleep(ctx, pollInterval, nil) {
		w.supervisor.mu.Lock()
		outdated := w.supervisor.lists.outdated()
		w.supervisor.mu.Unlock()
		for _, kind := range []client.ChangeKind{client.ToolsChanged, client.PromptsChanged, client.ResourcesChanged} {
			switch {
			case outdated&kind != 0:
				w.relist(ctx, kind, client.WithRefresh())
			case unreported&kind != 0:
				w.relist(ctx, kind)
			}
		}
	}
}

// watchResources watches the subscribed resources until ctx ends. watch watches the given resources until changed is
// closed or it fails. Consecutive watches need not overlap: a new watch reports that each of its resources may have
// been updated.
func (s *supervisor) watchResources(ctx context.Context, subs *subscriptions,
	watch func(uris []string, changed <-chan struct{}) error) {
	for ctx.Err() == nil {
		uris, changed := subs.uris()
		wait := forever
		if len(uris) > 0 {
			if err := watch(uris, changed); err != nil {
				s.logger.Debug("watch of resources ended", "error", err)
				if wait = rewatchDelay; errors.Is(err, errors.ErrUnsupported) {
					wait = maxBackoff
				}
			}
		}
		sleep(ctx, wait, changed)
		sleep(ctx, subscribeDelay, nil)
	}
}

// watchURIs watches resources until changed is closed or the watch fails, and reports their updates to subs.
func watchURIs(ctx context.Context, c *client.Client, subs *subscriptions, uris []string,
	changed <-chan struct{}) error {
	watching, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		select {
		case <-changed:
			cancel()
		case <-watching.Done():
		}
	}()
	for change, err := range c.Watch(watching, client.WatchFilter{URIs: uris}, client.WithoutReconnect()) {
		switch {
		case err != nil && change.URI != "": // the other resources are watched
			continue
		case err != nil:
			return err
		}
		subs.updated(change.URI)
	}
	return nil
}

// unsupported reports whether a watch has ended because the server does not support it.
func (w *watcher) unsupported(err error) bool {
	w.supervisor.logger.Debug("watch ended", "error", err)
	return errors.Is(err, errors.ErrUnsupported)
}

// sleep waits for d, or until wake is closed, and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// relist requests the lists of one kind and replaces them. It keeps the old lists if
// the request fails.
func (w *watcher) relist(ctx context.Context, kind client.ChangeKind, options ...client.CallOption) {
	s := w.supervisor
	if !s.isReady(ctx, w.client) {
		return
	}
	select {
	case w.listing <- struct{}{}:
		defer func() { <-w.listing }()
	case <-ctx.Done():
		return
	}
	listed, err := list(ctx, w.client, kind, options...)
	if ctx.Err() != nil {
		return
	}
	if err != nil && s.isHTTP() && isLost(ctx, err) {
		s.lost(w.client, err)
		return
	}
	if err != nil {
		s.logger.Warn("cannot update a list: keeping the previous one", "list", kind, "error", err)
	}
	same := false
	s.publish(func(all *lists, _ *client.ServerDetails) client.ChangeKind {
		if err != nil {
			listed = *all
			listed.incomplete = map[client.ChangeKind]error{kind: &outdatedError{err}}
		}
		now := all.replaced(kind, &listed)
		same = reflect.DeepEqual(now, *all)
		*all = now
		return kind
	}, func(status *ServerStatus) bool { return s.client == w.client && status.State.isUsable() && !same })
	sleep(ctx, relistInterval, nil)
}

// isReady waits until the first lists of a client are known or the server is down, and
// reports whether they are known.
func (s *supervisor) isReady(ctx context.Context, c *client.Client) bool {
	for {
		changed := s.changed.wait()
		s.mu.Lock()
		ready, state := s.client == c && s.status.State.isUsable(), s.status.State
		s.mu.Unlock()
		if ready || state.isDown() {
			return ready
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// MaySubscribe returns nil if the caller of ctx may subscribe to a resource of the server, and records the decision, as
// [Client.Subscribe] does. Call it for each caller if one call of [Client.Follow] serves several. It returns
// [ErrUnknown], [ErrAnonymousCaller] for a server with CallerAuth, a *call.OverloadError if such a server has too many
// callers with subscriptions, or a *[DeniedError].
func (c Client) MaySubscribe(ctx context.Context, uri string) error {
	s := c.host.find(c.server)
	if s == nil {
		return unknown("server", c.server)
	}
	if s.config.CallerAuth != nil {
		who := callerOf(ctx).Principal
		if who == principal.Anonymous {
			return fmt.Errorf("server %q: %w", c.server, ErrAnonymousCaller)
		}
		if err := s.pool.mayWatch(who); err != nil {
			return fmt.Errorf("server %q: %w", c.server, err)
		}
	}
	return c.host.permit(ctx, s, &Request{Method: mcp.MethodSubscribe, Server: c.server, Kind: KindResource, Name: uri})
}

type followKey struct{}

// Follow is like [Client.Subscribe], but does not ask the policy, because the program has called [Client.MaySubscribe].
func (c Client) Follow(ctx context.Context, uri string, updated func()) error {
	return c.Subscribe(context.WithValue(ctx, followKey{}, true), uri, updated)
}

// subscriber is one call of Subscribe.
type subscriber struct{ updated func() }

// subscriptions contains the subscribers to the resources of one server.
type subscriptions struct {
	mu      sync.Mutex
	byURI   map[string]map[*subscriber]struct{}
	bytes   int       // total length of all URIs
	changed broadcast // notifies of changes of the URIs
}

func (s *subscriptions) add(uri string, sub *subscriber) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byURI[uri] == nil {
		if len(s.byURI) >= changes.MaxSubscribed || s.bytes+len(uri) > changes.MaxSubscribedURIs ||
			len(uri) > changes.MaxSubscribedURI {
			return &call.OverloadError{Limit: "subscribed resources", RetryAfter: time.Minute}
		}
		if s.byURI == nil {
			s.byURI = make(map[string]map[*subscriber]struct{})
		}
		s.byURI[uri] = make(map[*subscriber]struct{})
		s.bytes += len(uri)
		s.changed.notify()
	}
	s.byURI[uri][sub] = struct{}{}
	return nil
}

func (s *subscriptions) remove(uri string, sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byURI[uri], sub)
	if len(s.byURI[uri]) == 0 {
		delete(s.byURI, uri)
		s.bytes -= len(uri)
		s.changed.notify()
	}
}

// uris returns the sorted URIs that have subscribers, and a channel that is closed when
// they change.
func (s *subscriptions) uris() (uris []string, changed <-chan struct{}) {
	changed = s.changed.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri := range s.byURI {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris, changed
}

// updated calls the subscribers of a resource.
func (s *subscriptions) updated(uri string) {
	s.mu.Lock()
	var subs []*subscriber
	for sub := range s.byURI[uri] {
		subs = append(subs, sub)
	}
	s.mu.Unlock()
	for _, sub := range subs {
		sub.updated()
	}
}
