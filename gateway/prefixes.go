package gateway

import (
	"maps"
	"slices"
	"sort"
	"strings"
)

// prefixes are the templates of all servers. A template represents all URIs that begin as
// it does up to its first expression, which may be more than those that match it. A search
// takes logarithmic time, unless many templates are prefixes of each other.
type prefixes struct {
	owners   map[string]string // from the beginning of a template to its server, or shared
	literals []string          // the keys of owners, sorted
	parent   []int             // the index of the longest other literal that is a prefix, or -1
	overlaps []bool            // whether a template of another server may match the same URIs
}

// add adds the beginning of a template of a server. Call index before a search.
func (p *prefixes) add(literal, server string) {
	if p.owners == nil {
		p.owners = make(map[string]string)
	}
	claim(p.owners, literal, server)
}

// index prepares a search.
func (p *prefixes) index() {
	p.literals = slices.Sorted(maps.Keys(p.owners))
	n := len(p.literals)
	p.parent, p.overlaps = make([]int, n), make([]bool, n)
	above, below := make([]string, n), make([]string, n) // the server of a literal and its parents or children, or shared
	for i, literal := range p.literals {
		owner := p.owners[literal]
		above[i], below[i] = owner, owner
		if p.parent[i] = p.ancestor(i-1, literal); p.claims(i) && above[p.parent[i]] != owner {
			above[i] = shared
		}
	}
	for i := n - 1; i >= 0; i-- {
		p.overlaps[i] = above[i] == shared || below[i] == shared
		if p.claims(i) && below[p.parent[i]] != below[i] {
			below[p.parent[i]] = shared
		}
	}
}

// claims reports whether the parent of literal i claims the URIs that begin with the literal.
func (p *prefixes) claims(i int) bool {
	j := p.parent[i]
	return j >= 0 && isAnyScheme(p.literals[j]) == isAnyScheme(p.literals[i])
}

// owner returns the server with the template that uri may match: that with the longest beginning, or
// shared if those of several servers overlap there.
func (p *prefixes) owner(uri string) (server string, ok bool) {
	after := sort.Search(len(p.literals), func(i int) bool { return p.literals[i] > uri })
	i := p.ancestor(after-1, uri)
	switch {
	case i < 0:
		return "", false
	case p.overlaps[i]:
		return shared, true
	}
	return p.owners[p.literals[i]], true
}

// overlap reports whether a URI that the templates with this beginning match may match a template of
// another server.
func (p *prefixes) overlap(literal string) bool {
	return p.overlaps[sort.SearchStrings(p.literals, literal)]
}

// ancestor returns the first of literal i, its parent, the parent of that and so on that is
// a prefix of text, or -1.
func (p *prefixes) ancestor(i int, text string) int {
	for i >= 0 && !strings.HasPrefix(text, p.literals[i]) {
		i = p.parent[i]
	}
	return i
}
