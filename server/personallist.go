package server

import (
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// personalPage serves a page of a list of some catalogs with entries that some callers cannot see. The entries
// of a page differ for each caller, but not the encoding of an entry, which is made once per
// revision. Of entries with one name, the list has that of the first catalog. List returns the result for some entries,
// and cursor the page after a name.
func personalPage[E entry](catalogs []*catalog[E], asked *rpc.Call, after string, size int, identity []byte, list func([]E, mcp.PageInfo) any, cursor func(last string, owner *principal.Principal) mcp.PageInfo) (*rpc.Encoded, error) {
	who, r := asked.Principal(), asked.Revision()
	var all []listed[E]
	more := false // than the entries of all
	for i, c := range catalogs {
		v := c.view()
		v.unscoped = i > 0 // see Server.Personal
		indexes, last := v.visible(who, after, size)
		encodings, err := c.encodingsOf(r, v, indexes, list)
		if err != nil {
			return nil, err
		}
		for j, index := range indexes {
			all = append(all, listed[E]{v.names[index], v.ordered[index], encodings[j]})
		}
		more = more || last != ""
	}
	if len(catalogs) > 1 {
		slices.SortStableFunc(all, func(a, b listed[E]) int { return strings.Compare(a.name, b.name) })
		all = slices.CompactFunc(all, func(a, b listed[E]) bool { return a.name == b.name })
	}
	last := ""
	if more || len(all) > size {
		all = all[:min(size, len(all))]
		last = all[len(all)-1].name
	}
	page := cursor(last, &who)
	entries, encodings := make([]E, len(all)), make([][]byte, len(all))
	for i, e := range all {
		entries[i], encodings[i] = e.entry, e.encoding
	}
	empty, err := revision.AppendResult(nil, r, list(nil, page), identity)
	if err != nil {
		return nil, err
	}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return fillList(dst, empty, encodings) },
		Result: func() any { return list(entries, page) },
	}, nil
}

// listed is an entry of a page.
type listed[E entry] struct {
	name     string
	entry    E
	encoding []byte
}

// encodingsOf returns the encodings of the entries of v at these indexes.
func (c *catalog[E]) encodingsOf(r mcp.Revision, v view[E], indexes []int, list func([]E, mcp.PageInfo) any) ([][]byte, error) {
	encodings := make([][]byte, len(indexes))
	c.mu.RLock()
	if known := c.encodings[r]; known != nil && c.changes == v.changes {
		for i, index := range indexes {
			encodings[i] = known[index]
		}
	}
	c.mu.RUnlock()
	var added []int // indexes into indexes
	for i, index := range indexes {
		if encodings[i] != nil {
			continue
		}
		// Without the lock, as encoding takes time.
		var err error
		if encodings[i], err = encodeEntry(r, list([]E{v.ordered[index]}, mcp.PageInfo{})); err != nil {
			return nil, err
		}
		added = append(added, i)
	}
	if added == nil {
		return encodings, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == v.changes {
		known := c.encodings[r]
		if known == nil {
			known = make([][]byte, len(v.ordered))
			if c.encodings == nil {
				c.encodings = make(map[mcp.Revision][][]byte)
			}
			c.encodings[r] = known
		}
		for _, i := range added {
			known[indexes[i]] = encodings[i]
		}
	}
	return encodings, nil
}

// encodeEntry returns the encoding of the only entry of a list.
func encodeEntry(r mcp.Revision, list any) ([]byte, error) {
	raw, err := revision.AppendResult(nil, r, list, nil)
	if err != nil {
		return nil, err
	}
	var entries []jsontext.Value
	for _, value := range jsonrpc.All(raw) {
		if value[0] == '[' {
			err = jsonv2.Unmarshal(value, &entries)
		}
	}
	if err != nil {
		return nil, err
	}
	return entries[0], nil
}

// fillList appends the encoding of an empty list with entries in its array.
func fillList(dst, empty []byte, entries [][]byte) []byte {
	size := len(empty)
	for _, e := range entries {
		size += len(e) + 1
	}
	dst = append(slices.Grow(dst, size), '{')
	for name, value := range jsonrpc.All(empty) {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendString(dst, name), ':')
		if string(value) != "[]" {
			dst = append(dst, value...)
			continue
		}
		dst = append(dst, '[')
		for i, e := range entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, e...)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
