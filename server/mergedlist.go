package server

import (
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// listed is an entry of a merged page.
type listed[E entry] struct {
	name     string
	entry    E
	encoding []byte
}

// mergedPage is personalPage for a list with the entries of a server and of other servers, which the caller has, too. Of
// entries with one name, the list has that of the first server.
func mergedPage[E entry](first *Server, others []*Server, catalogOf func(*Server) *catalog[E], asked *rpc.Call, after string, size int, identity []byte, list func([]E, mcp.PageInfo) any, cursor func(last string, owner *principal.Principal) mcp.PageInfo) (any, error) {
	who, r := asked.Principal(), asked.Revision()
	var all []listed[E]
	more := false // than the entries of all
	hidden := first.hiddenFrom(who, asked.Method())
	for i, s := range append([]*Server{first}, others...) {
		c := catalogOf(s)
		v := c.view()
		v.unscoped, v.hidden = i > 0, hidden // see Server.Personal
		if i > 0 {
			v.hidden = either(hidden, s.hiddenFrom(who, asked.Method()))
		}
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
	slices.SortStableFunc(all, func(a, b listed[E]) int { return strings.Compare(a.name, b.name) })
	all = slices.CompactFunc(all, func(a, b listed[E]) bool { return a.name == b.name })
	last := ""
	if more || len(all) > size {
		all = all[:size] // the catalog with more entries has as many
		last = all[size-1].name
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
