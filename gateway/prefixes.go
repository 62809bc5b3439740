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
	ranks    map[string]int // from the beginning of a template to the lowest rank of its servers
	literals []string       // the keys of ranks, sorted
	parent   []int          // the index of the longest other literal that is a prefix, or -1
	lowest   []int          // the lowest rank of a literal and its parents
}

// add adds the beginnings of the templates of a server with a rank.
func (p *prefixes) add(literals []string, rank int) {
	if p.ranks == nil {
		p.ranks = make(map[string]int)
	}
	for _, literal := range literals {
		if other, ok := p.ranks[literal]; !ok || rank < other {
			p.ranks[literal] = rank
		}
	}
	p.literals = slices.Sorted(maps.Keys(p.ranks))
	p.parent, p.lowest = make([]int, len(p.literals)), make([]int, len(p.literals))
	for i, literal := range p.literals {
		j := p.ancestor(i-1, literal)
		p.parent[i], p.lowest[i] = j, p.ranks[literal]
		if j >= 0 {
			p.lowest[i] = min(p.lowest[i], p.lowest[j])
		}
	}
}

// rankOf returns the lowest rank of the servers with a template that uri may match.
func (p *prefixes) rankOf(uri string) (rank int, ok bool) {
	after := sort.Search(len(p.literals), func(i int) bool { return p.literals[i] > uri })
	if i := p.ancestor(after-1, uri); i >= 0 {
		return p.lowest[i], true
	}
	return 0, false
}

// overlap reports whether a template with this beginning may match a URI that another
// template matches.
func (p *prefixes) overlap(literal string) bool {
	i := sort.SearchStrings(p.literals, literal)
	if i < len(p.literals) && strings.HasPrefix(p.literals[i], literal) {
		return true
	}
	_, ok := p.rankOf(literal)
	return ok
}

// ancestor returns the first of literal i, its parent, the parent of that and so on that is
// a prefix of text, or -1.
func (p *prefixes) ancestor(i int, text string) int {
	for i >= 0 && !strings.HasPrefix(text, p.literals[i]) {
		i = p.parent[i]
	}
	return i
}
