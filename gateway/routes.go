package gateway

import (
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// routes tell which server a URI at the gateway belongs to: of several servers, the first
// in the order of the configuration. They are immutable once they are in use.
type routes struct {
	rank      map[string]int  // of each server
	exact     map[string]int  // from the URI of a resource to the rank of its server
	prefixed  map[string]bool // the servers with CallerAuth, whose resources always have a prefix
	templates prefixes
}

func newRoutes(servers []string) *routes {
	r := &routes{rank: make(map[string]int), exact: make(map[string]int), prefixed: make(map[string]bool)}
	for i, name := range servers {
		r.rank[name] = i
	}
	return r
}

// add sets the URIs that the resources and templates of a server are to have at the
// gateway, and adds them. Servers are added in their order.
func (r *routes) add(server string, resources []*registration[mcp.Resource], templates []*registration[mcp.ResourceTemplate]) {
	for _, e := range resources {
		e.want = e.key
		if _, taken := r.owner(e.key); taken {
			e.want = prefixOf(server) + e.key
		}
	}
	for _, e := range templates {
		e.want = e.key
		if r.templates.overlap(literalOf(e.key)) {
			e.want = prefixOf(server) + e.key
		}
	}
	for _, e := range resources {
		if _, taken := r.exact[e.want]; !taken {
			r.exact[e.want] = r.rank[server]
		}
	}
	var literals []string
	for _, e := range templates {
		literals = append(literals, literalOf(e.want))
	}
	r.templates.add(literals, r.rank[server])
}

// addPrefixed adds a server whose resources always have its prefix, because callers see different ones.
func (r *routes) addPrefixed(server string) {
	r.prefixed[server] = true
	r.templates.add([]string{prefixOf(server)}, r.rank[server])
}

// owner returns the rank of the server that a URI belongs to, if there is one.
func (r *routes) owner(uri string) (rank int, ok bool) {
	rank, ok = r.exact[uri]
	if other, matches := r.templates.rankOf(uri); matches && (!ok || other < rank) {
		return other, true
	}
	return rank, ok
}

// uri returns the URI at the gateway for a URI in a result of a server. It is another one
// if the URI belongs to another server at the gateway.
func (r *routes) uri(server, uri string) string {
	if strings.HasPrefix(uri, host.ResultURI+server+"/") { // of the host
		return uri
	}
	if rank, ok := r.owner(uri); r.prefixed[server] || ok && rank != r.rank[server] {
		return prefixOf(server) + uri
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

// hasURIs reports whether rewrite may change a block, or the client may have removed icons of
// one.
func hasURIs(blocks []mcp.Content) bool {
	for _, block := range blocks {
		switch block.(type) {
		case *mcp.ResourceLink, *mcp.EmbeddedResource:
			return true
		}
	}
	return false
}

// prefixOf returns the prefix of the URIs of a server whose plain URIs belong to another
// server.
func prefixOf(server string) string { return "server:" + server + "/" }

// literalOf returns a template up to its first expression.
func literalOf(template string) string {
	literal, _, _ := strings.Cut(template, "{")
	return literal
}
