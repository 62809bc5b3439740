package server

import (
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// personalPage serves a page of a list with entries that some callers cannot see. The entries
// of a page differ for each caller, but not the encoding of an entry, which is made once per
// revision. List returns the result for some entries, and cursor the page after a name.
func (c *catalog[E]) personalPage(asked *rpc.Call, hidden func(name string) bool, after string, size int, identity []byte, list func([]E, mcp.PageInfo) any, cursor func(last string, owner *principal.Principal) mcp.PageInfo) (*rpc.Encoded, error) {
	who, r := asked.Principal(), asked.Revision()
	v := c.view()
	v.hidden = hidden
	indexes, last := v.visible(who, after, size)
	page := cursor(last, &who)
	encodings, err := c.encodingsOf(r, v, indexes, list)
	if err != nil {
		return nil, err
	}
	empty, err := revision.AppendResult(nil, r, list(nil, page), identity)
	if err != nil {
		return nil, err
	}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return fillList(dst, empty, encodings) },
		Result: func() any { return list(v.entriesAt(indexes), page) },
	}, nil
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
