package server

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// kind is a kind of entries.
type kind[E entry] struct {
	of     func(*Catalog) *entries[E]
	change changes.Kind
	result func([]E, mcp.PageInfo, mcp.CacheHints) any
	// files returns entries that are not registered; nil means that the kind has none.
	files func(ctx context.Context, c *Catalog, who principal.Principal, after string, n int) files[E]
}

// files are entries that are not registered, such as the files of directories. Each list is in the order of names.
type files[E entry] struct {
	lists      [][]E
	reached    string // the name up to which the lists have all entries; "" if they have all
	restricted bool   // callers see different entries
}

var toolKind = kind[*toolEntry]{
	of:     func(c *Catalog) *entries[*toolEntry] { return &c.tools },
	change: changes.ToolsChanged,
	result: func(entries []*toolEntry, page mcp.PageInfo, hints mcp.CacheHints) any {
		result := &mcp.ListToolsResult{CacheHints: hints, PageInfo: page, Tools: make([]mcp.Tool, len(entries))}
		for i, e := range entries {
			result.Tools[i] = e.tool
		}
		return result
	},
}

var promptKind = kind[*promptEntry]{
	of:     func(c *Catalog) *entries[*promptEntry] { return &c.prompts },
	change: changes.PromptsChanged,
	result: func(entries []*promptEntry, page mcp.PageInfo, hints mcp.CacheHints) any {
		result := &mcp.ListPromptsResult{CacheHints: hints, PageInfo: page, Prompts: make([]mcp.Prompt, len(entries))}
		for i, e := range entries {
			result.Prompts[i] = e.prompt
		}
		return result
	},
}

var resourceKind = kind[*resourceEntry]{
	of:     func(c *Catalog) *entries[*resourceEntry] { return &c.resources },
	change: changes.ResourcesChanged,
	result: func(entries []*resourceEntry, page mcp.PageInfo, hints mcp.CacheHints) any {
		result := &mcp.ListResourcesResult{CacheHints: hints, PageInfo: page,
			Resources: make([]mcp.Resource, len(entries))}
		for i, e := range entries {
			result.Resources[i] = e.resource
		}
		return result
	},
	files: listFiles,
}

var templateKind = kind[*templateEntry]{
	of:     func(c *Catalog) *entries[*templateEntry] { return &c.templates.entries },
	change: changes.ResourcesChanged,
	result: func(entries []*templateEntry, page mcp.PageInfo, hints mcp.CacheHints) any {
		templates := make([]mcp.ResourceTemplate, len(entries))
		for i, e := range entries {
			templates[i] = e.template
		}
		return &mcp.ListResourceTemplatesResult{CacheHints: hints, PageInfo: page, ResourceTemplates: templates}
	},
}

func (s *Server) listTools(ctx context.Context, c *rpc.Call) (any, error) {
	return list(ctx, s, c, &toolKind)
}

func (s *Server) listPrompts(ctx context.Context, c *rpc.Call) (any, error) {
	return list(ctx, s, c, &promptKind)
}

func (s *Server) listResources(ctx context.Context, c *rpc.Call) (any, error) {
	return list(ctx, s, c, &resourceKind)
}

func (s *Server) listTemplates(ctx context.Context, c *rpc.Call) (any, error) {
	return list(ctx, s, c, &templateKind)
}

// list serves a request for a page of a list. The list is merged from parts: the entries of the server's catalog and
// the files of each of its directories, followed by those of each other catalog of the caller.
func list[E entry](ctx context.Context, s *Server, c *rpc.Call, k *kind[E]) (any, error) {
	after, err := s.core.cursors.of(c)
	if err != nil {
		return nil, err
	}
	who, size := c.Principal(), s.pageSize()
	others, err := s.others(ctx) // which may add entries to s
	if err != nil {
		return nil, err
	}
	own := k.of(&s.Catalog).snapshot()
	rest, files := own.after(after), k.filesOf(ctx, &s.Catalog, who, after, size+1)
	m := merge[E]{who: who, method: c.Method()}
	key := pageKey{c.Revision(), len(rest)}
	personal := own.restricted || len(others) > 0 || files.restricted
	for _, o := range own.filtered {
		personal = m.hiding(o) != nil || personal
	}
	kept := !personal && len(files.lists) == 0
	if page := own.pages.get(key); kept && page != nil {
		return page, nil
	}
	m.add(rest, files)
	for _, o := range others {
		m.add(k.of(o).snapshot().after(after), k.filesOf(ctx, o, who, after, size+1))
	}
	found, last := m.next(size)
	hints := s.ListCache.hints(personal || s.Catalogs != nil || len(own.filtered) > 0)
	page, err := encodePage(s, c, k, found, last, personal, hints)
	if err != nil {
		return nil, err
	}
	if !kept {
		return page, nil
	}
	encoded := page.Append(nil)
	page.Append = func(dst []byte) []byte { return append(dst, encoded...) }
	page.Result = sync.OnceValue(page.Result)
	// Only the pages that nextCursor leads to are kept. The number of other cursors, from before a change, is not
	// limited.
	if (len(own.entries)-len(rest))%size == 0 {
		own.pages.keep(key, page)
	}
	return page, nil
}

// encodePage returns a page with the entries that were found. The next page begins after the name last, unless it is
// "". A personal list depends on the caller.
func encodePage[E entry](
	s *Server, c *rpc.Call, k *kind[E], found []E, last string, personal bool, hints mcp.CacheHints,
) (*rpc.Encoded, error) {
	info := mcp.PageInfo{}
	if last != "" {
		var owner *principal.Principal
		if personal {
			who := c.Principal()
			owner = &who
		}
		cursor := s.core.cursors.after(c.Method(), last, owner)
		info.NextCursor = &cursor
	}
	encodings, err := k.encode(found, c.Revision())
	if err != nil {
		return nil, err
	}
	empty, err := revision.AppendResult(nil, c.Revision(), k.result(nil, info, hints), s.core.engine.Identity)
	if err != nil {
		return nil, err
	}
	return &rpc.Encoded{
		Append: func(dst []byte) []byte { return fillList(dst, empty, encodings) },
		Result: func() any { return k.result(found, info, hints) },
	}, nil
}

// filesOf returns the entries of c that are not registered.
func (k *kind[E]) filesOf(ctx context.Context, c *Catalog, who principal.Principal, after string, n int) files[E] {
	if k.files == nil {
		return files[E]{}
	}
	return k.files(ctx, c, who, after, n)
}

// merge merges the parts of a list for a caller: each has the entries of one place after the cursor. Of entries with
// one name it has that of the first part in which the caller sees it.
type merge[E entry] struct {
	who     principal.Principal
	method  string // such as tools/list
	filters []filtering
	parts   [][]E
	until   string // the last name for which the parts have all entries; "" if there is none
}

// filtering is what a filter has decided for a list.
type filtering struct {
	filter *ListFilter
	hides  func(subject any) bool // nil: nothing is left out
}

// hiding returns the function of the filter of an entry, which is called once for a list. It returns nil if the filter
// leaves nothing out.
func (m *merge[E]) hiding(o *offer) func(subject any) bool {
	for _, f := range m.filters {
		if f.filter == o.filter {
			return f.hides
		}
	}
	var hides func(any) bool
	if !o.ask("Listed", func() bool { hides = o.filter.Hides(m.who, m.method); return true }) {
		hides = func(any) bool { return true }
	}
	m.filters = append(m.filters, filtering{o.filter, hides})
	return hides
}

// lists reports whether the list has an entry if no part before it has the name.
func (m *merge[E]) lists(e E) bool {
	o := e.common()
	switch {
	case !e.visibleTo(m.who):
		return false
	case o.filter == nil:
		return true
	}
	hides := m.hiding(o)
	return hides == nil || o.ask("Listed", func() bool { return !hides(o.subject) })
}

// add adds the entries of a catalog.
func (m *merge[E]) add(rest []E, files files[E]) {
	m.parts = append(append(m.parts, rest), files.lists...)
	if files.reached != "" && (m.until == "" || files.reached < m.until) {
		m.until = files.reached
	}
}

// next returns the first n entries, and the name after which the next page begins, or "" for the last page. It calls
// the functions of the program without holding a lock.
func (m *merge[E]) next(n int) (found []E, last string) {
	most := 0
	for i := range m.parts {
		most += len(m.parts[i])
	}
	found = make([]E, 0, min(n, most))
	for p := m.first(); p != nil; p = m.first() {
		e := (*p)[0]
		*p = (*p)[1:]
		switch name := e.common().name; {
		case m.until != "" && name > m.until:
			return found, m.until
		case name == last || !m.lists(e):
		case len(found) == n:
			return found, last
		default:
			found, last = append(found, e), name
		}
	}
	return found, m.until
}

// first returns the part with the first name, or nil if all parts are empty.
func (m *merge[E]) first() *[]E {
	var first *[]E
	for i := range m.parts {
		p := &m.parts[i]
		if len(*p) > 0 && (first == nil || (*p)[0].common().name < (*first)[0].common().name) {
			first = p
		}
	}
	return first
}

// encode returns the encodings of entries. Those of registered entries are made once for each revision.
func (k *kind[E]) encode(found []E, r mcp.Revision) ([][]byte, error) {
	encodings := make([][]byte, len(found))
	var missing []int
	for i, e := range found {
		if encodings[i] = e.common().encodingIn(r); encodings[i] == nil {
			missing = append(missing, i)
		}
	}
	if missing == nil {
		return encodings, nil
	}
	unknown := make([]E, len(missing))
	for i, at := range missing {
		unknown[i] = found[at]
	}
	raw, err := revision.AppendResult(nil, r, k.result(unknown, mcp.PageInfo{}, mcp.CacheHints{}), nil)
	if err != nil {
		return nil, err
	}
	var values []jsontext.Value
	for _, value := range jsonrpc.All(raw) {
		if value[0] == '[' {
			err = jsonv2.Unmarshal(value, &values)
		}
	}
	if err != nil {
		return nil, err
	}
	for i, at := range missing {
		encodings[at] = values[i]
		found[at].common().keepEncoding(r, values[i])
	}
	return encodings, nil
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

// cursors encodes and decodes list cursors. A cursor holds the name after which a page begins,
// so it stays valid while entries are added and removed, and on every replica with the same
// keys. It is sealed for its list and, if the list depends on the caller, for the caller: the
// names of one caller's list are not for others, and a forged cursor could name a hidden entry.
type cursors struct{ keys *seal.Keys }

const maxCursor = 16 << 10 // bytes; enough for the longest URI, sealed

// after returns the cursor of the page that begins after a name. The owner is nil for a list
// that is the same for all callers.
func (c cursors) after(list, name string, owner *principal.Principal) string {
	text := make([]byte, 0, 1+sha256.Size+len(name))
	if owner == nil {
		text = append(text, 'a')
	} else {
		digest := digestOf(*owner)
		text = append(append(text, 'o'), digest[:]...)
	}
	return c.keys.Seal("cursor of "+list, append(text, name...))
}

// of returns the name after which the requested page begins, "" for the first page.
func (c cursors) of(asked *rpc.Call) (string, error) {
	if err := checkNames(asked.Params(), "cursor", "_meta"); err != nil {
		return "", err
	}
	raw, ok := asked.Params().Get("cursor")
	switch {
	case !ok:
		return "", nil
	case raw[0] != '"':
		return "", invalidCursor("cursor must be a string")
	case len(raw) > maxCursor:
		return "", invalidCursor("cursor is too long")
	}
	opened, err := c.keys.Open("cursor of "+asked.Method(), jsonrpc.Unquote(raw))
	if err != nil {
		return "", invalidCursor(err.Error())
	}
	text := string(opened)
	if name, ok := strings.CutPrefix(text, "a"); ok {
		return name, nil
	}
	digest := digestOf(asked.Principal())
	name, ok := strings.CutPrefix(text, "o"+string(digest[:]))
	if !ok {
		return "", invalidCursor(seal.ErrInvalid.Error())
	}
	return name, nil
}

func digestOf(who principal.Principal) [sha256.Size]byte { return sha256.Sum256([]byte(who.Key())) }

func invalidCursor(reason string) error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
		"invalid cursor: %s: use the nextCursor of the previous page, or omit the cursor to start over", reason)
}
