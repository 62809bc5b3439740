package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Search returns the tools of [Host.Tools] that match a query, the best match first. It compares the words of
// the query with the names, titles, descriptions and argument names of the tools by BM25; see also
// [Host.Embed]. Tools that match equally have the order of Host.Tools, and an empty query matches all tools.
// Search returns at most limit tools; 0 means all that match. It waits for no server. The caller owns the
// slice. It must not modify the definitions.
//
// A model that cannot use the definitions of all tools at once searches for tools instead, and [Host.Describe]
// returns the definition of one that it wants to call with [Host.Call].
func (h *Host) Search(ctx context.Context, query string, limit int) []MergedTool {
	c := h.catalog()
	if limit <= 0 {
		limit = len(c.tools)
	}
	if strings.TrimSpace(query) == "" {
		return append([]MergedTool(nil), c.tools[:min(limit, len(c.tools))]...)
	}
	ranked := h.rank(ctx, c, query)
	ranked = ranked[:min(limit, len(ranked))]
	found := make([]MergedTool, len(ranked))
	for i, document := range ranked {
		found[i] = c.tools[document]
	}
	return found
}

// Describe returns a tool by its name in the merged list. If the list of its server is not known yet, Describe
// waits for the server as [Host.Call] does. It returns ErrUnknownServer or ErrUnknownTool if there is no such
// tool. The caller must not modify the definition.
func (h *Host) Describe(ctx context.Context, name string) (MergedTool, error) {
	if tool, ok := h.catalog().named(name); ok {
		return tool, nil
	}
	if _, _, err := h.resolve(ctx, name); err != nil {
		return MergedTool{}, err
	}
	if tool, ok := h.catalog().named(name); ok {
		return tool, nil
	}
	return MergedTool{}, fmt.Errorf("%w: %q", ErrUnknownTool, name)
}

// ToolsVersion returns a digest of the names and definitions of the tools in [Host.Tools], in their order. A
// program that keeps a result of Search or Describe compares versions to find out whether a tool was added,
// removed or changed. Hosts with the same tools have the same version.
func (h *Host) ToolsVersion() string { return h.catalog().version }

// catalog is the merged list of tools at one time, with an index of it. It is immutable but for
// its vectors.
type catalog struct {
	from    [][]MergedTool // the lists of the servers
	tools   []MergedTool
	byName  map[string]int
	index   *index
	version string
	vectors atomic.Pointer[[][]float32] // of the tools, if they are known; see Host.Embed
}

// catalog returns the current catalog. It makes a new one when a list of a server has changed.
func (h *Host) catalog() *catalog {
	h.cataloging.Lock() // so that one of several searches makes the index, and the others use it
	defer h.cataloging.Unlock()
	lists := h.toolLists()
	if h.cataloged == nil || !sameLists(h.cataloged.from, lists) {
		h.cataloged = newCatalog(lists)
	}
	return h.cataloged
}

// toolLists returns the lists of the servers at one moment.
func (h *Host) toolLists() (lists [][]MergedTool) {
	h.names.mu.RLock()
	defer h.names.mu.RUnlock()
	for _, s := range h.all() {
		status := s.snapshot()
		lists = append(lists, status.Tools)
	}
	return lists
}

// sameLists reports whether lists are the same slices. A list of a server is never modified, only replaced.
func sameLists(a, b [][]MergedTool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if len(a[i]) != len(b[i]) || len(a[i]) > 0 && &a[i][0] != &b[i][0] {
			return false
		}
	}
	return true
}

func newCatalog(lists [][]MergedTool) *catalog {
	c := &catalog{from: lists, byName: make(map[string]int)}
	var documents [][]field
	digest := sha256.New()
	for _, list := range lists {
		for i := range list {
			t := &list[i]
			c.byName[t.Name] = len(c.tools)
			c.tools = append(c.tools, *t)
			documents = append(documents, documentOf(t))
			// The definition is valid JSON, so the names of two tools cannot run into each other.
			definition, _ := json.Marshal(&t.Definition)
			digest.Write([]byte(t.Name))
			digest.Write(definition)
		}
	}
	c.index = newIndex(documents)
	c.version = hex.EncodeToString(digest.Sum(nil)[:8])
	return c
}

func (c *catalog) named(name string) (tool MergedTool, ok bool) {
	i, ok := c.byName[name]
	if !ok {
		return MergedTool{}, false
	}
	return c.tools[i], true
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
