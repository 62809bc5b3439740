package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/parley-mcp/parley/jsonrpc"
)

// catalog is the tools of one server at one time, with an index of them. It is immutable.
type catalog struct {
	tools  []MergedTool
	byName map[string]int
	index  *index
	digest [sha256.Size]byte // of the names and definitions, in their order
}

// catalogs are those of the servers of a Host, in their order. A document is a tool; its number counts the tools of all.
type catalogs []*catalog

// catalogs returns the catalogs for the caller of ctx. It makes a new one when the list of a server has changed.
func (h *Host) catalogs(ctx context.Context) (all catalogs) {
	h.cataloging.Lock() // so that one of several searches makes a catalog, and the others use it
	defer h.cataloging.Unlock()
	for _, l := range h.toolLists(ctx) {
		all = append(all, l.current())
	}
	return all
}

// toolList is the list of the tools of one server at one moment.
type toolList struct {
	tools  []MergedTool
	last   **catalog // guarded by Host.cataloging
	byName bool      // lists with the same names are the same
}

// toolLists returns the lists of the servers for the caller of ctx at one moment, as far as they are known.
func (h *Host) toolLists(ctx context.Context) (lists []toolList) {
	h.names.mu.RLock()
	defer h.names.mu.RUnlock()
	for _, s := range h.all() {
		if s.config.CallerAuth != nil {
			if o := s.callerLists.of(ctx); o != nil {
				tools, _ := withoutClaimed(s, h.names.tools, "tool", o.offered.tools, nameOfTool)
				lists = append(lists, toolList{tools, &o.catalog, true})
				continue
			}
		}
		lists = append(lists, toolList{tools: s.snapshot().Tools, last: &s.catalog})
	}
	return lists
}

// current returns the catalog of a list. Host.cataloging must be locked.
func (l *toolList) current() *catalog {
	if *l.last == nil || !l.isOf(*l.last) {
		*l.last = newCatalog(l.tools)
	}
	return *l.last
}

// isOf reports whether a catalog has the tools of l. A list of a server is never modified, only replaced.
func (l *toolList) isOf(c *catalog) bool {
	switch {
	case len(l.tools) != len(c.tools):
		return false
	case len(l.tools) == 0 || &l.tools[0] == &c.tools[0]:
		return true
	}
	return l.byName && slices.EqualFunc(l.tools, c.tools, func(a, b MergedTool) bool { return a.Name == b.Name })
}

func nameOfTool(t *MergedTool) string { return t.Name }

func newCatalog(tools []MergedTool) *catalog {
	c := &catalog{tools: tools, byName: make(map[string]int, len(tools))}
	documents := make([][]field, len(tools))
	digest := sha256.New()
	for i := range tools {
		t := &tools[i]
		c.byName[t.Name] = i
		documents[i] = documentOf(t)
		// The definition is valid JSON, so the names of two tools cannot run into each other.
		definition, _ := json.Marshal(&t.Definition)
		digest.Write([]byte(t.Name))
		digest.Write(definition)
	}
	c.index = newIndex(documents)
	digest.Sum(c.digest[:0])
	return c
}

// named returns the tool with a merged name.
func (cs catalogs) named(name string) (tool MergedTool, ok bool) {
	for _, c := range cs {
		if i, ok := c.byName[name]; ok {
			return c.tools[i], true
		}
	}
	return MergedTool{}, false
}

// document returns the tool with a number.
func (cs catalogs) document(number int) *MergedTool {
	for _, c := range cs {
		if number < len(c.tools) {
			return &c.tools[number]
		}
		number -= len(c.tools)
	}
	return nil
}

// size returns the number of tools.
func (cs catalogs) size() (n int) {
	for _, c := range cs {
		n += len(c.tools)
	}
	return n
}

// documentOf returns the parts of a tool that a search compares with a query. The name matters most.
func documentOf(t *MergedTool) []field {
	d := &t.Definition
	fields := []field{{t.Server, 1}, {d.Name, 3}, {d.Title, 2}, {d.Description, 1}}
	if d.Annotations != nil && d.Title == "" {
		fields = append(fields, field{d.Annotations.Title, 2})
	}
	for name := range jsonrpc.All(objectIn(d.InputSchema, "properties")) {
		fields = append(fields, field{name, 1})
	}
	return fields
}

// objectIn returns a member of an object if both are JSON objects, and otherwise an empty object.
func objectIn(object json.RawMessage, name string) json.RawMessage {
	if len(object) > 0 && object[0] == '{' {
		if value, ok := jsonrpc.Get(object, name); ok && value[0] == '{' {
			return value
		}
	}
	return json.RawMessage("{}")
}
