package server

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/jsonrpc"
)

// maxMatching bounds the work of finding the templates that match one URI: the bytes of the
// URI times the variables of each template with which it is compared. Two of the largest
// templates take this work for the longest URI, about 25 ms.
const maxMatching = 2 * maxURI * (maxVariables + 1)

// errMatching is the error for a URI whose comparison with the templates exceeds maxMatching.
func errMatching(uri string) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams,
		"too many templates may match a URI of %d bytes: shorten the URI", len(uri))
}

// templateSet holds the templates of a server. Safe for concurrent use.
type templateSet struct {
	entries[*templateEntry]
	index atomic.Pointer[templateIndex] // of the entries of an earlier time, or of now
}

// indexed returns the index of the templates.
func (t *templateSet) indexed() *templateIndex {
	now, x := t.snapshot(), t.index.Load()
	if x == nil || x.of != now {
		x = newTemplateIndex(now.entries)
		x.of = now
		t.index.Store(x)
	}
	return x
}

// all returns the templates, the most specific first. The caller must not modify the result.
func (t *templateSet) all() []*templateEntry { return t.indexed().ranked }

// match calls found for the templates that match a URI, the most specific first, with the
// values of their variables, until found returns false. It returns false if the comparison
// ended at maxMatching, so that more templates may match.
func (t *templateSet) match(uri string, found func(e *templateEntry, values map[string][]string) bool) (complete bool) {
	if len(uri) > maxURI {
		return true
	}
	uri = upperTriplets(uri)
	work := 0
	for _, e := range t.indexed().candidates(uri) {
		if work += len(uri) * (1 + len(e.uris.variables)); work > maxMatching {
			return false
		}
		if values, ok := e.uris.match(uri); ok && !found(e, values) {
			return true
		}
	}
	return true
}

// templateIndex finds templates by the literal text at the beginning of their URIs. It is
// immutable.
type templateIndex struct {
	of     *snapshot[*templateEntry]
	ranked []*templateEntry // by compareSpecific
	groups []templateGroup  // by prefix
}

// templateGroup is the templates with the same prefix.
type templateGroup struct {
	prefix string
	ranks  []int // of the templates, ascending
	// parent is the index of the group with the longest prefix that this prefix begins with, or
	// -1.
	parent int
}

func newTemplateIndex(list []*templateEntry) *templateIndex {
	x := &templateIndex{ranked: slices.SortedFunc(slices.Values(list), compareSpecific)}
	ranks := make(map[string][]int)
	for rank, e := range x.ranked {
		ranks[e.uris.prefix] = append(ranks[e.uris.prefix], rank)
	}
	for prefix, ranks := range ranks {
		x.groups = append(x.groups, templateGroup{prefix: prefix, ranks: ranks})
	}
	slices.SortFunc(x.groups, func(a, b templateGroup) int { return strings.Compare(a.prefix, b.prefix) })
	for i := range x.groups {
		x.groups[i].parent = x.within(i-1, x.groups[i].prefix)
	}
	return x
}

// within returns the index of the first group, from group i up through its parents, whose
// prefix begins text. It returns -1 if no prefix does.
func (x *templateIndex) within(i int, text string) int {
	for i >= 0 && !strings.HasPrefix(text, x.groups[i].prefix) {
		i = x.groups[i].parent
	}
	return i
}

// candidates returns the templates whose prefix begins a URI, the most specific first. A
// prefix of the URI is not greater than the URI, and begins everything between the two. So
// all prefixes of the URI are among the last group that is not greater and its parents.
func (x *templateIndex) candidates(uri string) []*templateEntry {
	i, exact := slices.BinarySearchFunc(x.groups, uri, func(g templateGroup, uri string) int { return strings.Compare(g.prefix, uri) })
	if !exact {
		i--
	}
	var ranks []int
	for i = x.within(i, uri); i >= 0; i = x.groups[i].parent {
		ranks = append(ranks, x.groups[i].ranks...)
	}
	slices.Sort(ranks)
	found := make([]*templateEntry, len(ranks))
	for i, rank := range ranks {
		found[i] = x.ranked[rank]
	}
	return found
}

func compareSpecific(a, b *templateEntry) int {
	rank := func(reserved bool) int {
		if reserved {
			return 1
		}
		return 0
	}
	return cmp.Or(
		-cmp.Compare(a.uris.literals, b.uris.literals),
		cmp.Compare(rank(a.uris.reserved), rank(b.uris.reserved)),
		strings.Compare(a.uris.text, b.uris.text),
	)
}
