package gateway

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// routes says which server a URI at the gateway belongs to. It does not depend on the order of the
// servers: a URI or template that two servers claim belongs to neither, and each serves it under
// its prefix, so that no server displaces another. It is immutable once it is in use.
type routes struct {
	servers   []string
	exact     map[string]string // server, or shared, by the URI of a resource
	prefixed  map[string]bool   // the servers with CallerAuth, whose resources always carry a prefix
	templates prefixes
}

// shared takes the place of a server's name, which is never empty, where several servers claim the same URI.
const shared = ""

// offers contains the resources and templates of one server.
type offers struct {
	resources []*registration[mcp.Resource]
	templates []*registration[mcp.ResourceTemplate]
}

// newRoutes returns the routes for the resources and templates of all servers.
func newRoutes(servers []string, prefixed map[string]bool, of func(server string) offers) *routes {
	r := &routes{servers: slices.Clone(servers), exact: make(map[string]string), prefixed: maps.Clone(prefixed)}
	for _, server := range servers {
		for _, e := range of(server).resources {
			claim(r.exact, canonical(e.key), server)
		}
		for _, e := range of(server).templates {
			if !isAllPages(e.key) {
				r.templates.add(canonical(literalOf(e.key)), server)
			}
		}
	}
	r.templates.index()
	for _, server := range servers {
		for _, e := range of(server).resources {
			e.want = e.key
			if key := canonical(e.key); isReserved(key) || r.exact[key] == shared {
				e.want = prefixOf(server, e.key) + e.key
			}
		}
		for _, e := range of(server).templates {
			e.want = e.key
			if literal := canonical(literalOf(e.key)); isAllPages(e.key) || isReserved(literal) ||
				r.templates.overlap(literal) {
				e.want = prefixOf(server, e.key) + e.key
			}
		}
	}
	return r
}

// claim records that a server claims a key.
func claim(owners map[string]string, key, server string) {
	if other, ok := owners[key]; ok && other != server {
		server = shared
	}
	owners[key] = server
}

// owner returns the server that a URI belongs to, or shared; ok is false if no server claims it. A
// template serves only URIs that no server lists.
func (r *routes) owner(uri string) (server string, ok bool) {
	uri = canonical(uri)
	if isReserved(uri) {
		i := slices.IndexFunc(r.servers, func(server string) bool { return hasPrefixOf(server, uri) })
		if i < 0 {
			return shared, true
		}
		return r.servers[i], true
	}
	if server, ok = r.exact[uri]; ok {
		return server, true
	}
	return r.templates.owner(uri)
}

// has reports whether a URI at the gateway belongs to an entry that a server serves under prefix.
func (r *routes) has(server, prefix, uri string) bool {
	owner, _ := r.owner(uri)
	return owner == server && isReserved(canonical(uri)) == (prefix != "")
}

// uri returns the URI at the gateway for a URI in a result of a server. It differs if the
// URI belongs to another server at the gateway.
func (r *routes) uri(server, uri string) string {
	if strings.HasPrefix(uri, host.ResultURI+server+"/") { // a large result of the host
		return uri
	}
	owner, ok := r.owner(uri)
	if r.prefixed[server] || ok && owner != server || !ok && strings.HasPrefix(canonical(uri), pageScheme) {
		return prefixOf(server, uri) + uri
	}
	return uri
}

// rewrite changes the links and embedded resources in the result of a server.
func (r *routes) rewrite(server string, blocks ...mcp.Content) {
	for _, block := range blocks {
		switch c := block.(type) {
		case *mcp.ResourceLink:
			c.URI = r.uri(server, c.URI)
		case *mcp.EmbeddedResource:
			c.Resource.URI = r.uri(server, c.Resource.URI)
		}
	}
}

// uriPrefix and pagePrefix begin the URIs that contain the name of their server as a prefix. At the gateway, too, the
// URI of a page begins with ui://, because clients accept nothing else (MCP Apps 2026-01-26, Content Requirements).
const (
	uriPrefix  = "server:"
	pageScheme = "ui://"
	pagePrefix = pageScheme + "server/"
)

// prefixOf returns the prefix of a URI or template of a server whose plain form belongs to another server.
func prefixOf(server, uri string) string {
	if strings.HasPrefix(canonical(uri), pageScheme) {
		return pagePrefix + server + "/"
	}
	return uriPrefix + server + "/"
}

// hasPrefixOf reports whether a URI at the gateway begins with a prefix of a server.
func hasPrefixOf(server, uri string) bool {
	return strings.HasPrefix(uri, uriPrefix+server+"/") || strings.HasPrefix(uri, pagePrefix+server+"/")
}

// isAllPages reports whether a template matches all pages of a server. It claims no URI and is always served under
// the prefix, because a page that no server lists may have a URI that another server uses.
func isAllPages(template string) bool { return canonical(literalOf(template)) == pageScheme }

// isReserved reports whether URIs that begin with literal belong to the gateway itself.
func isReserved(literal string) bool {
	return strings.HasPrefix(literal, uriPrefix) || strings.HasPrefix(literal, pagePrefix) ||
		strings.HasPrefix(literal, host.ResultURI)
}

// canonical returns the form in which URIs are compared, so that another spelling of a URI does not lead to
// another server: the scheme is in lower case, and exactly those characters are percent-encoded that must be (RFC
// 3986, section 6.2.2).
//
// It differs from the normal form of package resourceuri, which is for rules. Here, the case of an authority is
// kept, because servers put IDs there (note://Ab and note://ab are two notes) and the beginning of a template may
// end within it. Rules do not encode characters, because ? in a pattern matches one character.
func canonical(uri string) string {
	scheme, rest, ok := strings.Cut(uri, ":")
	if lower := strings.ToLower(scheme); ok && lower != scheme {
		uri = lower + ":" + rest
	}
	const mustEncode = "%\"<>\\^`{|}"
	mustChange := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(mustEncode, r) }
	if strings.IndexFunc(uri, mustChange) < 0 {
		return uri
	}
	var b []byte
	for i := 0; i < len(uri); i++ {
		c := uri[i]
		decoded, err := hex.DecodeString(uri[min(i+1, len(uri)):min(i+3, len(uri))])
		isTriplet := c == '%' && err == nil && len(decoded) == 1
		switch {
		case isTriplet && isUnreserved(decoded[0]):
			b = append(b, decoded[0])
		case isTriplet:
			b = append(b, strings.ToUpper(uri[i:i+3])...)
		case mustChange(rune(c)):
			b = fmt.Appendf(b, "%%%02X", c)
		default:
			b = append(b, c)
		}
		if isTriplet {
			i += 2
		}
	}
	return string(b)
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// literalOf returns a template up to its first expression.
func literalOf(template string) string {
	literal, _, _ := strings.Cut(template, "{")
	return literal
}

// isAnyScheme reports whether a template that begins with literal matches URIs of any scheme. It does
// not claim them: it serves only URIs that no other template matches.
func isAnyScheme(literal string) bool { return !strings.Contains(literal, ":") }

// prefixes contains the templates of all servers. A template stands for all URIs that
// begin with its text up to the first expression, which may be more than the URIs that
// match it. A search takes logarithmic time, unless many templates are prefixes of each
// other.
type prefixes struct {
	owners   map[string]string // server, or shared, by the beginning of a template
	literals []string          // the keys of owners, sorted
	parent   []int             // index of the longest other literal that is a prefix, or -1
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
	// the only server among a literal and its parents or children, or shared
	above, below := make([]string, n), make([]string, n)
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

// owner returns the server whose template uri may match. The template with the longest beginning
// decides; if templates of several servers overlap there, owner returns shared.
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

// ancestor returns the first of literal i, its parent, its grandparent and so on that is a
// prefix of text, or -1.
func (p *prefixes) ancestor(i int, text string) int {
	for i >= 0 && !strings.HasPrefix(text, p.literals[i]) {
		i = p.parent[i]
	}
	return i
}

// server returns the server that a URI at the gateway belongs to, and the URI there.
func (r *routes) server(uri string) (serverName, there string, ok bool) {
	if serverName, _ = r.owner(uri); serverName == shared {
		return "", "", false
	}
	for _, prefix := range []string{uriPrefix, pagePrefix} {
		if there, ok := strings.CutPrefix(uri, prefix+serverName+"/"); ok {
			return serverName, there, true
		}
	}
	return serverName, uri, true
}
