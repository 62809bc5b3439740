package server

import (
	"context"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// PersonalChanged notifies the clients of some callers that the lists of [Server.Personal] have changed for them; without
// callers, those of all callers. The clients at all replicas are notified if they share [Server.Bus]. It does not block and
// is safe for concurrent use.
func (s *Server) PersonalChanged(callers ...principal.Principal) {
	for _, kind := range []changes.Kind{changes.ToolsChanged, changes.PromptsChanged, changes.ResourcesChanged} {
		if len(callers) == 0 {
			s.changes.Publish(changes.Change{Kind: kind})
			s.replicas.announce(announcement{Kind: kind})
		}
		for _, caller := range callers {
			s.publishTo(caller, changes.Change{Kind: kind})
		}
	}
	s.followers.changed()
}

// PersonalUpdated notifies the clients of a caller that have subscribed to a resource, as [Catalog.ResourceUpdated] does
// with those of all callers.
func (s *Server) PersonalUpdated(caller principal.Principal, uri string) {
	s.publishTo(caller, changes.Change{Kind: changes.ResourceUpdated, URI: uri})
}

func (s *Server) publishTo(caller principal.Principal, change changes.Change) {
	s.changes.PublishTo(func(who principal.Principal) bool { return who == caller }, change)
	s.replicas.announce(announcement{Kind: change.Kind, URI: change.URI, Caller: caller.Key()})
}

// personal returns the servers of Personal.
func (s *Server) personal(ctx context.Context) []*Server {
	if s.Personal == nil {
		return nil
	}
	others := s.Personal(ctx)
	for _, other := range others {
		if other.completes.Load() {
			s.completes.Store(true)
		}
		if other.runsTasks.Load() {
			s.runsTasks.Store(true)
		}
		if other.follows.Load() {
			s.follows.Store(true)
		}
	}
	return others
}

// findFor returns the entry with a name that the caller of ctx can see, and the server that has it: s or, if s has none,
// one of Personal.
func findFor[E entry](ctx context.Context, s *Server, k *kind[E], name string, who principal.Principal) (e E, from *Server, ok bool) {
	if e, ok = k.of(&s.Catalog).find(name, who); ok || s.Personal == nil || rpc.From(ctx) == nil {
		return e, s, ok
	}
	for _, other := range s.personal(ctx) {
		if e, ok = k.of(&other.Catalog).find(name, who); ok && len(e.needs()) == 0 {
			return e, other, true
		}
	}
	e, ok = k.of(&s.Catalog).find(name, who) // Personal may have added it
	return e, s, ok
}

// resourceFor is resourceAt for the caller of ctx, also with the servers of Personal.
func (s *Server) resourceFor(ctx context.Context, uri string, who principal.Principal) (*foundResource, error) {
	found, err := s.resourceAt(uri, who)
	if err == nil || s.Personal == nil || rpc.From(ctx) == nil {
		return found, err
	}
	for _, other := range s.personal(ctx) {
		if found, err := other.resourceAt(uri, who); err == nil && len(found.offer.scopes) == 0 {
			return found, nil
		}
	}
	return s.resourceAt(uri, who)
}

// servingFor is serving for the caller of ctx, also with the servers of Personal.
func (s *Server) servingFor(ctx context.Context, uri string, who principal.Principal) *resourceOffer {
	one := []principal.Principal{who}
	if offer := s.serving(uri, one); offer != nil || s.Personal == nil {
		return offer
	}
	for _, other := range s.personal(ctx) {
		if offer := other.serving(uri, one); offer != nil && len(offer.scopes) == 0 {
			return offer
		}
	}
	return s.serving(uri, one)
}

// completionTargetFor is completionTarget for the caller of ctx, also with the servers of Personal.
func (s *Server) completionTargetFor(ctx context.Context, ref mcp.CompleteReference, who principal.Principal) (*completionTarget, error) {
	seen := func(e entry) bool { return e.visibleTo(who) }
	target, err := s.completionTarget(ref, seen)
	if err == nil || s.Personal == nil || rpc.From(ctx) == nil {
		return target, err
	}
	for _, other := range s.personal(ctx) {
		if target, err := other.completionTarget(ref, seen); err == nil && len(target.scopes) == 0 {
			return target, nil
		}
	}
	return s.completionTarget(ref, seen)
}
