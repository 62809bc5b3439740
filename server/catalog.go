package server

import (
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// catalog is what a server offers of one kind, by name, and the lists of it as
// bytes. Lists are asked for far more often than they change, so each page is
// encoded once for each revision. Entries are listed in the order of their names,
// which is the same on every replica and at every time. The zero catalog is empty.
// Safe for concurrent use.
type catalog[E any] struct {
	mu      sync.RWMutex
	declare bool // the kind is offered, be it that there is nothing of it at present
	entries map[string]E
	names   []string // sorted; nil when it has to be made anew
	pages   map[pageKey]revision.Encoded
	changes uint64 // how often entries has changed
}

type pageKey struct {
	revision mcp.Revision
	from     int // index into names
}

var errTaken = errors.New("the name is taken: remove what has it first")

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
	c.changed()
	c.declare = true
	return nil
}

func (c *catalog[E]) remove(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.entries[name]
	if ok {
		delete(c.entries, name)
		c.changed()
	}
	return ok
}

// changed is called with mu held.
func (c *catalog[E]) changed() {
	c.names, c.pages = nil, nil
	c.changes++
}

// offer declares the kind even while there is nothing of it.
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

// page returns the page of entries whose names come after a name. Result makes a
// result of them; next is the cursor of the page that follows, nil for none.
func (c *catalog[E]) page(r mcp.Revision, after string, size int, identity []byte, result func(entries []E, next *string) any) (revision.Encoded, error) {
	c.mu.RLock()
	page := c.pages[pageKey{r, c.from(after)}]
	c.mu.RUnlock()
	if page != nil {
		return page, nil
	}
	entries, next, from, changes := c.slice(after, size)
	// Not under the lock: who calls needs it, and anybody can ask for any page.
	page, err := revision.AppendResult(nil, r, result(entries, next), identity)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Only pages that whoever follows the cursors sees: anybody can make up others.
	if from%size == 0 && c.changes == changes {
		if c.pages == nil {
			c.pages = make(map[pageKey]revision.Encoded)
		}
		c.pages[pageKey{r, from}] = page
	}
	return page, nil
}

// from is the index of the first name that comes after a name. It is called with mu held.
func (c *catalog[E]) from(after string) int {
	if after == "" {
		return 0
	}
	return sort.Search(len(c.names), func(i int) bool { return c.names[i] > after })
}

// slice returns one page's entries, and tells where the page begins and in which
// state of the catalog that is.
func (c *catalog[E]) slice(after string, size int) (entries []E, next *string, from int, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = slices.Sorted(maps.Keys(c.entries))
	}
	from = c.from(after)
	to := min(from+size, len(c.names))
	entries = make([]E, 0, to-from)
	for _, name := range c.names[from:to] {
		entries = append(entries, c.entries[name])
	}
	if to < len(c.names) {
		cursor := cursorAfter(c.names[to-1])
		next = &cursor
	}
	return entries, next, from, c.changes
}
