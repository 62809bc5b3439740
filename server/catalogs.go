package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
)

// CatalogsChanged tells the clients of some callers, or without callers all clients, that [Server.Catalogs] may return
// other catalogs now. It reaches the clients of all replicas. A change inside a catalog, such as a new tool, needs no
// call. It does not block and is safe for concurrent use.
//
// Without callers, CatalogsChanged also calls the functions of [BeforeSubscribe] again for the clients of this replica,
// because their results may differ now. If one rejects a resource, a 2026-07-28 subscription that includes it ends, and
// the client can subscribe again to the others. Subscriptions in sessions continue; use [UpdatesFor] for those.
func (s *Server) CatalogsChanged(callers ...principal.Principal) {
	for _, kind := range []changes.Kind{changes.ToolsChanged, changes.PromptsChanged, changes.ResourcesChanged} {
		if len(callers) == 0 {
			s.publish(&s.Catalog, announcement{Kind: kind}, nil)
		}
		for _, caller := range callers {
			s.publishTo(caller, changes.Change{Kind: kind})
		}
	}
	s.followers.changed()
	if len(callers) == 0 {
		s.rechecks.begin()
	}
}

// others returns the catalogs that the caller of ctx has besides s.Catalog, in the order of precedence, and records
// that it has them.
func (s *Server) others(ctx context.Context) ([]*Catalog, error) {
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

const (
	maxHolders = 10_000 // callers whose catalogs are known
	maxSources = 100    // sessions and addresses of a caller whose catalogs are known
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

// lookup calls find with s.Catalog and with the other catalogs of the caller of ctx, until it returns true. Finally, it
// calls find with s.Catalog again, because Catalogs may have added to it.
func (s *Server) lookup(ctx context.Context, find func(c *Catalog) (found bool)) error {
	if find(&s.Catalog) || s.Catalogs == nil {
		return nil
	}
	others, err := s.others(ctx)
	if err == nil && !slices.ContainsFunc(others, find) {
		find(&s.Catalog)
	}
	return err
}

// findFor returns the entry with a name that the caller of ctx, who, can see.
func findFor[E entry](
	ctx context.Context, s *Server, k *kind[E], who principal.Principal, name string,
) (e E, ok bool, err error) {
	err = s.lookup(ctx, func(c *Catalog) bool {
		e, ok = k.of(c).find(name, who)
		return ok
	})
	return e, ok, err
}
