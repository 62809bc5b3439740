package schema

import (
	"net/url"
	"strings"
)

// index is the first pass over a schema document. It checks every bound, and
// locates subschemas, identifiers, anchors and the targets of references, before
// anything is compiled.
type index struct {
	*document
	limits limits

	entries   []entry              // entries by token
	resources map[string]*resource // resources by absolute URI
	refs      []reference
	targets   map[uint32]uint32 // subschema by the value of the reference that leads to it
	dynamic   bool              // some reference depends on the dynamic scope

	members  map[uint32]map[string]uint32 // tables of large objects that references lead through
	elements map[uint32][]uint32          // tables of such arrays

	subschemaCount  quota
	identifierBytes quota
	patterns        patterns
}

// entry describes the subschema that begins at a token, if any.
type entry struct {
	resource *resource // nil if no subschema begins there
	node     *node     // nil until it is compiled
}

// resource is a schema with an identifier, together with all of its subschemas
// without one.
type resource struct {
	root    uint32
	uri     string // absolute, without fragment
	base    *url.URL
	draft   draft
	anchors map[string]uint32
	// dynamic contains the anchors that $dynamicRef looks up in the dynamic
	// scope. $recursiveAnchor is the anchor without a name.
	dynamic map[string]uint32
	// nodes contains the compiled dynamic anchors.
	nodes map[string]*node
}

// reference is a reference that has not been resolved.
type reference struct {
	at      uint32 // token of its value
	keyword string
	from    *resource
}

const (
	// fewMembers is the size up to which searching an object or an array is cheaper
	// than building a table.
	fewMembers = 16
	// maxURI bounds identifiers and references, in bytes.
	maxURI = 8 << 10
	// maxIdentifierBytes bounds the sum of the identifiers of one document, resolved.
	maxIdentifierBytes = 1 << 20
	// rootURI is the base of a document without identifier. It has a path, so that a
	// relative reference resolves to another document and is rejected.
	rootURI = "parley:///schema"
)

// newIndex indexes the document, and resolves its references. The memory of regular expressions is taken from a
// quota.
func newIndex(d *document, l limits, memory *quota) (*index, error) {
	x := &index{
		document: d, limits: l,
		entries:   make([]entry, len(d.Tokens)),
		resources: make(map[string]*resource, 2),
		patterns:  patterns{limit: l.MaxRegexp, memory: memory},

		subschemaCount:  quota{what: "subschemas", most: int64(l.MaxSubschemas)},
		identifierBytes: quota{what: "bytes of all identifiers", most: maxIdentifierBytes},
	}
	own, err := x.draftAt(0, draft2020)
	if err != nil {
		return nil, err
	}
	r := &resource{uri: rootURI, draft: own}
	x.resources[rootURI] = r
	if err := x.walk(0, 1, r); err != nil {
		return nil, err
	}
	for len(x.refs) > 0 { // resolving a reference may find more references
		ref := x.refs[len(x.refs)-1]
		x.refs = x.refs[:len(x.refs)-1]
		if err := x.resolve(ref); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// draftAt returns the draft that the $schema of an object names, or inherited
// if there is none.
func (x *index) draftAt(at uint32, inherited draft) (draft, error) {
	if x.Tokens[at].Kind != kindObject {
		return inherited, nil
	}
	value, ok := x.member(at, "$schema")
	if !ok || x.Tokens[value].Kind != kindString {
		return inherited, nil
	}
	return draftOf(x.Text(value))
}

// walk indexes the subschema at a token.
func (x *index) walk(at uint32, depth int, within *resource) error {
	if x.entries[at].resource != nil {
		return nil
	}
	if err := x.subschemaCount.take(1); err != nil {
		return err
	}
	if depth > x.limits.MaxDepth {
		return tooMany("depth of subschemas", x.limits.MaxDepth)
	}
	t := x.Tokens[at]
	if t.Kind != kindObject {
		x.entries[at].resource = within
		return nil
	}
	r, err := x.identify(at, within)
	if err != nil {
		return err
	}
	x.entries[at].resource = r
	for i := at + 1; i < t.Next; i = x.Tokens[i+1].Next {
		name, value := x.Text(i), i+1
		k := r.draft.keyword(name)
		if k.content == isUnknown || k.content == isData {
			continue
		}
		if err := x.keyword(name, at, value, r); err != nil {
			return err
		}
		if k.content == noSchema {
			continue
		}
		var err error
		x.subschemas(k.content, value, func(sub uint32) {
			if err == nil {
				err = x.walk(sub, depth+1, r)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// identify returns the resource of the schema at a token: a new one if the schema
// has an identifier, else the one that it is within.
func (x *index) identify(at uint32, within *resource) (*resource, error) {
	own := within.draft
	if at != within.root {
		var err error
		if own, err = x.draftAt(at, own); err != nil {
			return nil, err
		}
	}
	name := "$id"
	if own == draft4 {
		name = "id"
	}
	value, ok := x.member(at, name)
	if !ok || x.Tokens[value].Kind != kindString {
		return within, nil
	}
	if own <= draft7 {
		if _, ok := x.member(at, "$ref"); ok {
			return within, nil // $ref makes its siblings meaningless
		}
	}
	text := x.Text(value)
	if len(text) > maxURI {
		return nil, tooMany("bytes of an identifier", maxURI)
	}
	id, err := url.Parse(text)
	if err != nil {
		return nil, x.malformed(value, "must be a URI reference")
	}
	anchor := id.Fragment
	id.Fragment, id.RawFragment = "", ""
	r := within
	if id.String() != "" {
		if r, err = x.newResource(at, within, own, id); err != nil {
			return nil, err
		}
	}
	switch {
	case anchor == "":
	case own <= draft7:
		return r, x.addAnchor(r, anchor, value, at)
	default:
		return nil, x.malformed(value, "must have no fragment")
	}
	return r, nil
}

// newResource returns the resource with an identifier that begins at a token.
func (x *index) newResource(at uint32, within *resource, own draft, id *url.URL) (*resource, error) {
	base, err := within.baseURL()
	if err != nil {
		return nil, err
	}
	base = resolveURL(base, id)
	uri := base.String()
	if len(uri) > maxURI {
		return nil, tooMany("bytes of an identifier", maxURI)
	}
	if err := x.identifierBytes.take(int64(len(uri))); err != nil {
		return nil, err
	}
	r := within
	if at != within.root {
		r = &resource{root: at, draft: own}
	}
	if other := x.resources[uri]; other != nil && other != r {
		return nil, &invalidSchemaError{Reason: "two subschemas have the identifier " + quote(uri)}
	}
	r.uri, r.base = uri, base
	x.resources[uri] = r
	return r, nil
}

// baseURL returns the URI against which references within r are resolved.
func (r *resource) baseURL() (*url.URL, error) {
	if r.base == nil {
		base, err := url.Parse(r.uri)
		if err != nil {
			return nil, err
		}
		r.base = base
	}
	return r.base, nil
}

// addAnchor records an anchor of the subschema at a token. value is the token of
// its name.
func (x *index) addAnchor(r *resource, name string, value, at uint32) error {
	if other, ok := r.anchors[name]; ok && other != at {
		return x.malformed(value, "must be unique; another subschema has the anchor "+quote(name))
	}
	if r.anchors == nil {
		r.anchors = map[string]uint32{}
	}
	r.anchors[name] = at
	return nil
}

// addDynamic records a dynamic anchor of the subschema at a token.
func (r *resource) addDynamic(name string, at uint32) {
	if r.dynamic == nil {
		r.dynamic = map[string]uint32{}
	}
	r.dynamic[name] = at
}

// keyword records the anchors, references and regular expressions of a keyword.
func (x *index) keyword(name string, owner, value uint32, r *resource) error {
	t := &x.Tokens[value]
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if t.Kind != kindString || name == "$recursiveRef" && r.draft != draft2019 {
			return nil
		}
		if t.End-t.Start > maxURI {
			return tooMany("bytes of a reference", maxURI)
		}
		x.refs = append(x.refs, reference{value, name, r})
	case "$anchor", "$dynamicAnchor":
		if t.Kind != kindString {
			return nil
		}
		if name == "$dynamicAnchor" {
			r.addDynamic(x.Text(value), owner)
		}
		return x.addAnchor(r, x.Text(value), value, owner)
	case "$recursiveAnchor":
		if r.draft == draft2019 && owner == r.root && t.Kind == kindBoolean && x.isTrue(value) {
			r.addDynamic("", owner)
		}
	case "pattern":
		if t.Kind == kindString {
			return x.patterns.add(x.Text(value))
		}
	case "patternProperties":
		if t.Kind == kindObject {
			for i := value + 1; i < t.Next; i = x.Tokens[i+1].Next {
				if err := x.patterns.add(x.Text(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// malformed returns the error about a value in a schema. It begins with the JSON
// Pointer of the value.
func (x *index) malformed(at uint32, expectation string) error {
	return &invalidSchemaError{Reason: x.location(at) + " " + expectation + ", not " + x.describe(at)}
}

// resolveURL resolves ref against base. Unlike net/url alone it keeps an opaque
// base, such as a URN, for references that consist of a fragment.
func resolveURL(base, ref *url.URL) *url.URL {
	resolved := base.ResolveReference(ref)
	if !ref.IsAbs() && base.Opaque != "" {
		resolved.Opaque = base.Opaque
	}
	return resolved
}

// unescapeFragment returns the decoded fragment of a URI reference.
func unescapeFragment(fragment string) (string, error) {
	if !strings.Contains(fragment, "%") {
		return fragment, nil
	}
	return url.PathUnescape(fragment)
}

// maxChain bounds the number of subschemas in a row that examine the same value.
// Together with the depth of instances it bounds the stack.
const maxChain = 256

// checkCycles rejects programs whose references lead back to themselves without
// going down into the value. Such a schema describes nothing, and following it
// would not end. It also rejects chains longer than maxChain. Cycles that pass
// through a property or an element, as in a tree, are accepted. A dynamic
// reference is assumed to lead to all its possible targets.
func checkCycles(root *node) error {
	c := cycles{chain: map[*node]int{}, seen: map[*node]bool{root: true}, queue: []*node{root}}
	for len(c.queue) > 0 {
		n := c.queue[0]
		c.queue = c.queue[1:]
		if _, err := c.longest(n, 0); err != nil {
			return err
		}
		n.children(c.enqueue)
	}
	return nil
}

type cycles struct {
	chain map[*node]int // length of the longest chain from a node, or inProgress
	seen  map[*node]bool
	queue []*node
}

const inProgress = -1

func (c *cycles) enqueue(n *node) {
	if !c.seen[n] {
		c.seen[n] = true
		c.queue = append(c.queue, n)
	}
}

// longest returns the length of the longest chain that begins at n.
func (c *cycles) longest(n *node, depth int) (int, error) {
	switch known, ok := c.chain[n]; {
	case ok && known == inProgress:
		return 0, &RefError{Ref: "$ref", Reason: "leads back to itself; let it pass through a property or an element"}
	case ok:
		return known, nil
	case depth > maxChain:
		return 0, tooMany("references in a row", maxChain)
	}
	c.chain[n] = inProgress
	most := 0
	var err error
	n.inPlace(func(m *node) {
		c.enqueue(m)
		if err != nil {
			return
		}
		var child int
		if child, err = c.longest(m, depth+1); err == nil {
			most = max(most, child+1)
		}
	})
	c.chain[n] = most
	if most > maxChain && err == nil {
		err = tooMany("references in a row", maxChain)
	}
	return most, err
}
