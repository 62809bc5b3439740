package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// entry is one registered tool, prompt, resource or template.
type entry interface {
	restricted() bool
	visibleTo(principal.Principal) bool
	audience() func(principal.Principal) bool
	needs() []string
}

// catalog holds the entries of one kind by name, and encoded pages of their list. Lists are
// requested far more often than they change, so each page is encoded once per revision, unless
// callers see different entries. Entries are listed in the order of their names, which is the
// same on every replica. The zero catalog is empty. Safe for concurrent use.
type catalog[E entry] struct {
	mu         sync.RWMutex
	declare    bool // the capability is declared even without entries
	entries    map[string]E
	unlisted   map[string]bool // names whose entries are left out of the list; immutable
	scoped     atomic.Bool     // an entry requires scopes, or did
	restricted int             // number of entries with VisibleTo
	names      []string        // sorted, immutable; nil when it must be computed again
	ordered    []E             // in the order of names, immutable
	results    map[int]any     // of pages, by the index of their first name; revisions share them
	pages      map[pageKey]*rpc.Encoded
	encodings  map[mcp.Revision][][]byte // of entries, as ordered; nil entries must be computed. See personalPage
	changes    uint64                    // number of changes of entries
}

type pageKey struct {
	revision mcp.Revision
	from     int // index into names
}

var errTaken = errors.New("already in use: remove the earlier registration first")

func (c *catalog[E]) add(name string, e E) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.entries[name]; taken {
		return errTaken
	}
	if c.entries == nil {
		c.entries = make(map[string]E)
	}
	c.entries[name] = e
	if e.restricted() {
		c.restricted++
	}
	if len(e.needs()) > 0 {
		c.scoped.Store(true)
	}
	c.changed()
	c.declare = true
	return nil
}

// remove removes an entry, and returns it if it existed.
func (c *catalog[E]) remove(name string) (e E, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok = c.entries[name]
	if ok {
		delete(c.entries, name)
		if e.restricted() {
			c.restricted--
		}
		c.changed()
	}
	return e, ok
}

// changed is called with mu held.
func (c *catalog[E]) changed() {
	c.names, c.ordered, c.results, c.pages, c.encodings = nil, nil, nil, nil, nil
	c.changes++
}

// unlist replaces the names whose entries are left out of the list. It reports false if they are the
// same as before. The catalog keeps names.
func (c *catalog[E]) unlist(names map[string]bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if maps.Equal(names, c.unlisted) {
		return false
	}
	c.unlisted = names
	c.changed()
	return true
}

// offer declares the capability even while there are no entries.
func (c *catalog[E]) offer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declare = true
}

func (c *catalog[E]) offered() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.declare
}

func (c *catalog[E]) get(name string) (e E, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok = c.entries[name]
	return e, ok
}

// find returns the entry of a name if a caller can see it.
func (c *catalog[E]) find(name string, who principal.Principal) (e E, ok bool) {
	e, ok = c.get(name)
	return e, ok && e.visibleTo(who)
}

// serveList serves a request for a page of a list. Result returns the result for entries.
func serveList[E entry](ctx context.Context, s *Server, c *rpc.Call, catalogOf func(*Server) *catalog[E], result func(entries []E, page mcp.PageInfo, hints mcp.CacheHints) any) (any, error) {
	core := &s.core
	after, err := core.cursors.of(c)
	if err != nil {
		return nil, err
	}
	from, others := catalogOf(s), s.personal(ctx)
	pageUpTo := func(last string, owner *principal.Principal) (page mcp.PageInfo) {
		if last != "" {
			cursor := core.cursors.after(c.Method(), last, owner)
			page.NextCursor = &cursor
		}
		return page
	}
	if len(others) > 0 {
		return mergedPage(s, others, catalogOf, c, after, s.pageSize(), core.http.Modern.Identity, func(entries []E, page mcp.PageInfo) any {
			return result(entries, page, s.ListCache.hints(true))
		}, pageUpTo)
	}
	hidden := s.hiddenFrom(c.Principal(), c.Method())
	if hidden == nil {
		encoded, shared, err := from.page(c.Revision(), after, s.pageSize(), core.http.Modern.Identity, func(entries []E, last string) any {
			return result(entries, pageUpTo(last, nil), s.ListCache.hints(false))
		})
		switch {
		case err != nil:
			return nil, err
		case shared:
			return encoded, nil
		}
	}
	encoded, err := from.personalPage(c, hidden, after, s.pageSize(), core.http.Modern.Identity, func(entries []E, page mcp.PageInfo) any {
		return result(entries, page, s.ListCache.hints(true))
	}, pageUpTo)
	if err != nil {
		return nil, err
	}
	return encoded, nil
}

// page returns the encoded page of the entries whose names come after a name. It returns false if
// callers see different entries. Result returns the result for entries; last is the name after
// which the next page begins, or "" for the last page.
func (c *catalog[E]) page(r mcp.Revision, after string, size int, identity []byte, result func(entries []E, last string) any) (encoded *rpc.Encoded, shared bool, _ error) {
	c.mu.RLock()
	page := c.pages[pageKey{r, firstAfter(c.names, after)}]
	c.mu.RUnlock()
	if page != nil {
		return page, true, nil
	}
	v := c.view()
	if v.personal {
		return nil, false, nil
	}
	entries, last, from := v.slice(after, size)
	// Without the lock: calls need it, and every client can request any page.
	c.mu.RLock()
	typed := c.results[from]
	if c.changes != v.changes {
		typed = nil
	}
	c.mu.RUnlock()
	if typed == nil {
		typed = result(entries, last)
	}
	raw, err := revision.AppendResult(nil, r, typed, identity)
	if err != nil {
		return nil, false, err
	}
	page = &rpc.Encoded{
		Append: func(dst []byte) []byte { return append(dst, raw...) },
		Result: func() any { return typed },
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Only the pages that nextCursor leads to are cached: cursors from before a change lead to
	// an unlimited number of others.
	if from%size == 0 && c.changes == v.changes {
		if c.pages == nil {
			c.pages, c.results = make(map[pageKey]*rpc.Encoded), make(map[int]any)
		}
		c.results[from] = typed
		c.pages[pageKey{r, from}] = page
	}
	return page, true, nil
}

// firstAfter returns the index of the first name after a name.
func firstAfter(names []string, after string) int {
	if after == "" {
		return 0
	}
	return sort.Search(len(names), func(i int) bool { return names[i] > after })
}

// view is an immutable snapshot of a catalog.
type view[E entry] struct {
	names    []string
	ordered  []E
	personal bool // callers see different lists
	changes  uint64
	unscoped bool                   // without the entries that require scopes
	hidden   func(name string) bool // may be nil
}

func (c *catalog[E]) view() view[E] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = slices.Sorted(maps.Keys(c.entries))
		c.names = slices.DeleteFunc(c.names, func(name string) bool { return c.unlisted[name] })
		c.ordered = make([]E, len(c.names))
		for i, name := range c.names {
			c.ordered[i] = c.entries[name]
		}
	}
	return view[E]{names: c.names, ordered: c.ordered, personal: c.restricted > 0, changes: c.changes}
}

// slice returns the entries of one page, and the index at which it begins.
func (v view[E]) slice(after string, size int) (entries []E, last string, from int) {
	from = firstAfter(v.names, after)
	to := min(from+size, len(v.names))
	if to < len(v.names) {
		last = v.names[to-1]
	}
	return v.ordered[from:to], last, from
}

// visible returns the entries of a page that a caller can see.
func (c *catalog[E]) visible(who principal.Principal, after string, size int) []E {
	v := c.view()
	indexes, _ := v.visible(who, after, size)
	return v.entriesAt(indexes)
}

// visible returns the indexes of the entries of a page that a caller can see, and the name after
// which the next page begins, or "" for the last page. It calls the functions of VisibleTo
// without holding a lock.
func (v view[E]) visible(who principal.Principal, after string, size int) (indexes []int, last string) {
	first := firstAfter(v.names, after)
	indexes = make([]int, 0, min(size, len(v.names)-first))
	for i := first; i < len(v.names); i++ {
		if !v.ordered[i].visibleTo(who) || v.unscoped && len(v.ordered[i].needs()) > 0 || v.hidden != nil && v.hidden(v.names[i]) {
			continue
		}
		if len(indexes) == size {
			return indexes, last
		}
		indexes, last = append(indexes, i), v.names[i]
	}
	return indexes, ""
}

func (v view[E]) entriesAt(indexes []int) []E {
	entries := make([]E, len(indexes))
	for i, index := range indexes {
		entries[i] = v.ordered[index]
	}
	return entries
}
