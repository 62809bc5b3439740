package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// ErrTooManySubscriptions is returned by Subscribe when a server would have more
// subscribed resources than the limit: 1,024 resources whose URIs have 1 MiB together.
var ErrTooManySubscriptions = errors.New("host: too many subscribed resources")

// Subscribe calls updated each time a resource of a server was updated, until ctx ends
// or the Host is closed. It also calls updated when an update may have been missed, for
// example after a reconnect and at the start. Several updates may lead to one call.
// updated runs on the goroutine that receives the messages of the server, so it must
// return soon.
//
// Subscribe starts a lazy server, but not a server that is down, and does not call updated while the
// server is down or if the server does not support subscriptions.
//
// The resources of a server with CallerAuth are watched with the credentials of the caller of ctx. If they do not suffice,
// Subscribe tries them again.
//
// If another server replaces the server, Subscribe continues with it; see [Host.SetServers].
// Subscribe returns nil when ctx ends. The errors are [ErrUnknownServer], also when the server
// is removed, [ErrTooManySubscriptions], [ErrClosed], [ErrAnonymousCaller] for a server with CallerAuth, and a
// *[DeniedError] if the policy rejects it, then or later; see [Host.PolicyChanged].
func (h *Host) Subscribe(ctx context.Context, server, uri string, updated func()) error {
	sub := &subscriber{updated}
	for {
		s := h.find(server)
		if s == nil {
			return fmt.Errorf("%w: %q", ErrUnknownServer, server)
		}
		var changed <-chan struct{} // of the policy
		if !rpc.CallerOf(ctx).Permitted {
			changed = h.policies.wait()
			if err := h.permitSubscription(ctx, server, uri); err != nil {
				return err
			}
		}
		subs, release := &s.subscriptions, func() {}
		if s.config.CallerAuth != nil {
			var err error
			if subs, release, err = s.watchFor(ctx); err != nil {
				return fmt.Errorf("server %q: %w", server, err)
			}
		}
		if err := subs.add(uri, sub); err != nil {
			release()
			return fmt.Errorf("server %q: %w", server, err)
		}
		end := func() {
			subs.remove(uri, sub)
			release()
		}
		if s.snapshot().State == NotStarted {
			s.want()
		}
		select {
		case <-ctx.Done():
			end()
			return nil
		case <-h.ctx.Done():
			end()
			return ErrClosed
		case <-changed: // ask the policy again
			end()
		case <-s.retired: // go on with the server that replaces it
			end()
		}
	}
}

// permitSubscription returns nil if the caller of ctx may subscribe to a resource of a server, and records the
// decision. A gateway, in which one call of [Host.Subscribe] is for several callers, calls it for each. The errors are [ErrUnknownServer], [ErrAnonymousCaller] for a server with CallerAuth,
// and a *[DeniedError].
func (h *Host) permitSubscription(ctx context.Context, server, uri string) error {
	s := h.find(server)
	if s == nil {
		return fmt.Errorf("%w: %q", ErrUnknownServer, server)
	}
	if s.config.CallerAuth != nil && callerOf(ctx).Principal.IsAnonymous() {
		return fmt.Errorf("server %q: %w", server, ErrAnonymousCaller)
	}
	return h.permit(ctx, s, &Request{Method: mcp.MethodSubscribe, Server: server, Kind: KindResource, Name: uri})
}

// subscriber is one call of Subscribe.
type subscriber struct{ updated func() }

// subscriptions are the subscribers to the resources of one server.
type subscriptions struct {
	mu      sync.Mutex
	byURI   map[string]map[*subscriber]struct{}
	bytes   int       // the length of all URIs
	changed broadcast // that the URIs have changed
}

func (s *subscriptions) add(uri string, sub *subscriber) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byURI[uri] == nil {
		if len(s.byURI) >= changes.MaxSubscribed || s.bytes+len(uri) > changes.MaxSubscribedURIs || len(uri) > changes.MaxSubscribedURI {
			return ErrTooManySubscriptions
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
