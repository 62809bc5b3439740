package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// CatalogsChanged notifies the clients of some callers that [Server.Catalogs] may return other catalogs for them;
// without callers, those of all callers. The clients at all replicas are notified. A change
// in a catalog, such as a tool that is added, needs no call. It does not block and is safe for concurrent use.
func (s *Server) CatalogsChanged(callers ...principal.Principal) {
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

func (s *Server) publishTo(caller principal.Principal, change changes.Change) {
	s.changes.PublishTo(func(who principal.Principal) bool { return who == caller }, change)
	s.replicas.announce(announcement{Kind: change.Kind, URI: change.URI, Caller: caller.Key()})
}

// other is a catalog that a caller has besides that of the server.
type other struct {
	catalog *Catalog
	server  *Server // the server of Personal that has the catalog; nil: the catalog is one of Catalogs
}

// others returns what the caller of ctx has besides s.Catalog, in the order of precedence.
func (s *Server) others(ctx context.Context) ([]other, error) {
	var servers []*Server
	if s.Personal != nil {
		servers = s.Personal(ctx)
	}
	catalogs, err := s.catalogsOf(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]other, 0, len(servers)+len(catalogs))
	for _, server := range servers {
		all = append(all, other{&server.Catalog, server})
	}
	for _, c := range catalogs {
		all = append(all, other{catalog: c})
	}
	for _, o := range all {
		if o.catalog.completes.Load() {
			s.completes.Store(true)
		}
		if o.catalog.runsTasks.Load() {
			s.runsTasks.Store(true)
		}
		if o.catalog.follows.Load() {
			s.follows.Store(true)
		}
	}
	return all, nil
}

// catalogsOf returns the catalogs that the caller of ctx has, and records that it has them.
func (s *Server) catalogsOf(ctx context.Context) ([]*Catalog, error) {
	if s.Catalogs == nil {
		return nil, nil
	}
	found, err := s.callCatalogs(ctx)
	if err != nil {
		return nil, err
	}
	catalogs := make([]*Catalog, 0, len(found))
	for _, c := range found {
		if c != nil && c != &s.Catalog && !slices.Contains(catalogs, c) {
			c.attach(s)
			catalogs = append(catalogs, c)
		}
	}
	source := ""
	if c := rpc.From(ctx); c != nil {
		source = c.Source()
	}
	s.holders.record(PrincipalOf(ctx), source, catalogs)
	return catalogs, nil
}

// callCatalogs calls Catalogs. A panic becomes an error without details.
func (s *Server) callCatalogs(ctx context.Context) (found []*Catalog, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.logger().ErrorContext(ctx, "panic in Catalogs", "panic", v, "stack", string(debug.Stack()))
			err = errors.New("panic in Catalogs")
		}
	}()
	return s.Catalogs(ctx)
}

// audienceOf returns a function that reports who of an audience has c. A nil audience is every caller.
func (s *Server) audienceOf(c *Catalog, audience func(principal.Principal) bool) func(principal.Principal) bool {
	if c == &s.Catalog {
		return audience
	}
	return func(who principal.Principal) bool {
		return s.holders.mayHave(who, c, s.Store != nil) && (audience == nil || audience(who))
	}
}

// publishOf notifies the clients of an audience who have c, one of Catalogs, of a change.
func (s *Server) publishOf(c *Catalog, change changes.Change, audience func(principal.Principal) bool) {
	s.changes.PublishTo(s.audienceOf(c, audience), change)
	if s.Store == nil {
		return
	}
	concerns := func(who principal.Principal) bool { return audience == nil || audience(who) }
	digests := s.holders.digests(c, concerns)
	for some := range slices.Chunk(digests, maxDigests) {
		s.replicas.announce(announcement{Kind: change.Kind, URI: change.URI, Callers: strings.Join(some, " ")})
	}
}

const (
	maxHolders = 10_000 // callers whose catalogs are known
	maxSources = 100    // sessions and addresses of a caller whose catalogs are known
	maxDigests = 256    // callers of an announcement
)

// holders knows which catalogs callers have. Safe for concurrent use.
type holders struct {
	mu        sync.RWMutex
	by        map[principal.Principal]*holder
	forgotten bool // a holder was deleted
}

// holder is a caller, which may have other catalogs in each of its sessions.
type holder struct {
	by      map[string][]*Catalog // by session or address
	unknown bool                  // it may have any catalog: some of its sessions are not known
}

func (h *holders) record(who principal.Principal, source string, catalogs []*Catalog) {
	h.mu.RLock()
	known := h.by[who]
	same := known != nil && (known.unknown || known.by[source] != nil && slices.Equal(known.by[source], catalogs))
	h.mu.RUnlock()
	if same {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.by[who]
	switch {
	case of == nil:
		if len(h.by) >= maxHolders {
			h.forgotten = true
			for other := range h.by {
				delete(h.by, other)
				break
			}
		}
		if h.by == nil {
			h.by = make(map[principal.Principal]*holder)
		}
		of = &holder{by: make(map[string][]*Catalog), unknown: h.forgotten}
		h.by[who] = of
	case len(of.by) >= maxSources && of.by[source] == nil:
		of.by, of.unknown = nil, true
	}
	if !of.unknown {
		of.by[source] = catalogs
	}
}

// mayHave reports whether a caller has c in one of its sessions. A caller of whom nothing is known may have c if it was
// forgotten, or if its lists may be of another process.
func (h *holders) mayHave(who principal.Principal, c *Catalog, elsewhere bool) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	of := h.by[who]
	if of == nil {
		return elsewhere || h.forgotten
	}
	for _, catalogs := range of.by {
		if slices.Contains(catalogs, c) {
			return true
		}
	}
	return of.unknown
}

// digests returns the digests of the callers who may have c, and of these those for whom concerns returns true.
func (h *holders) digests(c *Catalog, concerns func(principal.Principal) bool) []string {
	h.mu.RLock()
	callers := slices.Collect(maps.Keys(h.by))
	h.mu.RUnlock()
	var digests []string
	for _, who := range callers {
		if h.mayHave(who, c, false) && concerns(who) {
			digests = append(digests, shortDigest(who))
		}
	}
	slices.Sort(digests) // so that equal announcements are one
	return digests
}

// shortDigest identifies a caller in announcements.
func shortDigest(who principal.Principal) string {
	digest := sha256.Sum256([]byte(who.Key()))
	return base64.RawURLEncoding.EncodeToString(digest[:12])
}

// PersonalUpdated notifies the clients of a caller that have subscribed to a resource, as [Catalog.ResourceUpdated]
// does with those of all callers.
func (s *Server) PersonalUpdated(caller principal.Principal, uri string) {
	s.publishTo(caller, changes.Change{Kind: changes.ResourceUpdated, URI: uri})
}

// hasOthers reports whether callers may have catalogs besides that of the server.
func (s *Server) hasOthers() bool { return s.Personal != nil || s.Catalogs != nil }

// elsewhere calls find with each other catalog of the caller of ctx until it returns true. An unscoped catalog has no
// entries that require scopes. Finally, it calls find with s.Catalog again, because Personal may have added to it.
func (s *Server) elsewhere(ctx context.Context, find func(c *Catalog, unscoped bool) (found bool)) error {
	others, err := s.others(ctx)
	if err != nil {
		return err
	}
	for _, o := range others {
		if find(o.catalog, o.server != nil) {
			return nil
		}
	}
	find(&s.Catalog, false)
	return nil
}

// findFor returns the entry with a name that the caller of ctx can see, and the server of Personal that has it, if
// one has. While ctx is not the context of a call, it looks at s.Catalog alone.
func findFor[E entry](
	ctx context.Context, s *Server, k *kind[E], name string, who principal.Principal,
) (e E, from *Server, ok bool, err error) {
	if e, ok = k.of(&s.Catalog).find(name, who); ok || !s.hasOthers() || rpc.From(ctx) == nil {
		return e, nil, ok, nil
	}
	others, err := s.others(ctx)
	if err != nil {
		return e, nil, false, err
	}
	for _, o := range others {
		if e, ok = k.of(o.catalog).find(name, who); ok && (o.server == nil || len(e.needs()) == 0) {
			return e, o.server, true, nil
		}
	}
	e, ok = k.of(&s.Catalog).find(name, who) // Personal may have added it
	return e, nil, ok, nil
}

// resourceFor is resourceAt for the caller of ctx, also in its other catalogs.
func (s *Server) resourceFor(ctx context.Context, uri string, who principal.Principal) (*foundResource, error) {
	found, err := s.resourceAt(uri, who)
	if err == nil || !s.hasOthers() || rpc.From(ctx) == nil {
		return found, err
	}
	failed := s.elsewhere(ctx, func(c *Catalog, unscoped bool) bool {
		other, unknown := c.resourceAt(uri, who)
		if unknown == nil && !(unscoped && len(other.offer.scopes) > 0) {
			found, err = other, nil
		}
		return err == nil
	})
	if failed != nil {
		return nil, failed
	}
	return found, err
}

// servingFor is serving for the caller of ctx, also in its other catalogs.
func (s *Server) servingFor(ctx context.Context, uri string, who principal.Principal) (*resourceOffer, error) {
	one := []principal.Principal{who}
	offer := s.serving(uri, one)
	if offer != nil || !s.hasOthers() {
		return offer, nil
	}
	err := s.elsewhere(ctx, func(c *Catalog, unscoped bool) bool {
		if other := c.serving(uri, one); other != nil && !(unscoped && len(other.scopes) > 0) {
			offer = other
		}
		return offer != nil
	})
	return offer, err
}

// completionTargetFor is completionTarget for the caller of ctx, also in its other catalogs.
func (s *Server) completionTargetFor(
	ctx context.Context, ref mcp.CompleteReference, who principal.Principal,
) (*completionTarget, error) {
	seen := func(e entry) bool { return e.visibleTo(who) }
	target, err := s.completionTarget(ref, seen)
	if err == nil || !s.hasOthers() || rpc.From(ctx) == nil {
		return target, err
	}
	failed := s.elsewhere(ctx, func(c *Catalog, unscoped bool) bool {
		other, unknown := c.completionTarget(ref, seen)
		if unknown == nil && !(unscoped && len(other.scopes) > 0) {
			target, err = other, nil
		}
		return err == nil
	})
	if failed != nil {
		return nil, failed
	}
	return target, err
}
