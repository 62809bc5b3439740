package schema

import "regexp"

// A program is a schema compiled for the fast path: a graph of nodes, one per
// subschema, each holding only what it has to check. Absent groups of keywords
// are nil pointers, so that a node costs what its schema says and no more.
//
// Invariant: the edges that stay at the same instance (ref, allOf, anyOf, oneOf,
// not, if, then, else, dependentSchemas) form no cycle; see checkLoops.

// node is one subschema.
type node struct {
	always, never bool // true (or {}), and false
	types         kind // 0 for any
	ref           *node
	enum          *valueSet
	constant      *valueSet
	object        *objectRules
	array         *arrayRules
	text          *textRules
	number        *numberRules
	logic         *logic
}

// logic holds the applicators that look at the same instance again.
type logic struct {
	allOf, anyOf, oneOf []*node
	not                 *node
	cond                *node
	then, otherwise     *node
}

// unbounded stands for an absent maximum.
const unbounded = -1

// objectRules holds the keywords for objects.
type objectRules struct {
	// properties are the names that the schema knows: those of "properties" in
	// their order, then those that are only required.
	properties []property
	index      map[string]int // by name; nil when a linear search is quicker
	required   int            // how many of them are required

	patterns   []patternProperty
	additional *node // nil for anything
	names      *node // propertyNames

	minimum, maximum int
	dependents       []dependent
}

type property struct {
	name     string
	node     *node // nil if the name is only required
	required bool
}

type patternProperty struct {
	pattern *pattern
	node    *node
}

// dependent is what the presence of a member asks for.
type dependent struct {
	name     string
	requires []string
	node     *node // nil without dependentSchemas
}

// fewProperties is the number of properties up to which a linear search that
// begins behind the last hit beats a map.
const fewProperties = 8

// find returns the index of the property called name, or -1. Members mostly come
// in the order of the schema, so the search begins at hint.
func (o *objectRules) find(name []byte, hint int) int {
	if hint < len(o.properties) && o.properties[hint].name == string(name) {
		return hint
	}
	if o.index != nil {
		if i, ok := o.index[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range o.properties {
		if o.properties[i].name == string(name) {
			return i
		}
	}
	return -1
}

// arrayRules holds the keywords for arrays.
type arrayRules struct {
	prefix           []*node
	rest             *node // nil for anything
	minimum, maximum int
	unique           bool

	contains                   *node
	minContained, maxContained int
}

// textRules holds the keywords for strings. Lengths are in code points.
type textRules struct {
	minimum, maximum int
	pattern          *pattern
	format           *format
}

// format is an assertion of "format". Only draft 7 makes it one; later drafts
// leave it an annotation unless a dialect says otherwise.
type format struct {
	name  string
	check func(any) error
}

// pattern is a compiled regular expression. size is the number of its
// instructions, the factor between the length of a text and the worst time.
type pattern struct {
	expression *regexp.Regexp
	size       int
}

// numberRules holds the keywords for numbers.
type numberRules struct {
	minimum, maximum   *bound
	exclusive          struct{ minimum, maximum *bound }
	multipleOf         *divisor
	multipleOfSpelling string
}

// beside calls visit for each node that looks at the same instance as n.
func (n *node) beside(visit func(*node)) {
	each := func(nodes ...*node) {
		for _, m := range nodes {
			if m != nil {
				visit(m)
			}
		}
	}
	each(n.ref)
	if l := n.logic; l != nil {
		each(l.allOf...)
		each(l.anyOf...)
		each(l.oneOf...)
		each(l.not, l.cond, l.then, l.otherwise)
	}
	if n.object != nil {
		for _, d := range n.object.dependents {
			each(d.node)
		}
	}
}

// below calls visit for each node that looks at a member, a member name or an
// element of n's instance.
func (n *node) below(visit func(*node)) {
	each := func(nodes ...*node) {
		for _, m := range nodes {
			if m != nil {
				visit(m)
			}
		}
	}
	if o := n.object; o != nil {
		for _, p := range o.properties {
			each(p.node)
		}
		for _, p := range o.patterns {
			each(p.node)
		}
		each(o.additional, o.names)
	}
	if a := n.array; a != nil {
		each(a.prefix...)
		each(a.rest, a.contains)
	}
}
