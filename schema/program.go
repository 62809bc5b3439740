package schema

import "regexp"

// A program is a compiled schema: a graph of nodes, one per subschema, each of
// which contains only what it has to check. Groups of keywords that are absent
// are nil pointers, so that a node costs no more than its schema requires.
//
// Invariant: the edges to nodes that examine the same value (ref, allOf, anyOf,
// oneOf, not, if, then, else, dependentSchemas and the parts of extra) form no
// cycle; see checkCycles.

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
	extra         *extra // if not nil, all other fields are zero
}

// extra contains the keywords that few schemas have, around a node that contains
// all other keywords of the subschema.
type extra struct {
	plain *node
	// resource is the resource of the subschema, in programs with dynamic references.
	resource *resource
	dynamic  []dynamicRef
	// unevaluatedProperties and unevaluatedItems are nil when absent.
	unevaluatedProperties, unevaluatedItems *node
	// unchecked reports that a keyword of the subschema cannot be checked.
	unchecked bool
}

// dynamicRef is a $dynamicRef or $recursiveRef whose target depends on the dynamic
// scope.
type dynamicRef struct {
	name     string // of the dynamic anchor; "" for $recursiveAnchor
	fallback *node  // if no resource in the dynamic scope has the anchor
	targets  []*node
}

// logic contains the applicators that examine the same value again.
type logic struct {
	allOf, anyOf, oneOf []*node
	not                 *node
	cond                *node
	then, otherwise     *node
}

// unbounded is the value of an absent maximum.
const unbounded = -1

// objectRules contains the keywords for objects.
type objectRules struct {
	// properties are the names in the schema: those of "properties" in their order,
	// then those that are only required.
	properties []property
	index      map[string]int // by name; nil if a linear search is faster
	required   int            // number of required properties

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

// patternProperty is a member of "patternProperties".
type patternProperty struct {
	pattern *pattern // nil if it cannot be checked: then it may match every name
	node    *node
}

// dependent is what the presence of a member requires.
type dependent struct {
	name     string
	requires []string
	node     *node // nil unless a schema is required
}

// fewProperties is the number of properties up to which a linear search that
// begins after the last hit is faster than a map.
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

// arrayRules contains the keywords for arrays.
type arrayRules struct {
	prefix           []*node
	rest             *node // nil for anything
	minimum, maximum int
	unique           bool

	contains                   *node
	containsEvaluates          bool // items that match contains count as evaluated
	minContained, maxContained int
}

// textRules contains the keywords for strings. Lengths are in code points.
type textRules struct {
	minimum, maximum int
	pattern          *pattern
	format           *format
}

// pattern is a compiled regular expression. size is the number of its
// instructions, the factor between the length of a text and the worst time.
type pattern struct {
	expression *regexp.Regexp
	size       int
}

// numberRules contains the keywords for numbers.
type numberRules struct {
	minimum, maximum   *bound
	exclusive          struct{ minimum, maximum *bound }
	multipleOf         *divisor
	multipleOfSpelling string
}

// walkAll calls walk for each node that is not nil.
func walkAll(walk func(*node), nodes ...*node) {
	for _, n := range nodes {
		if n != nil {
			walk(n)
		}
	}
}

// inPlace calls walk for each node that examines the same value as n.
func (n *node) inPlace(walk func(*node)) {
	walkAll(walk, n.ref)
	if l := n.logic; l != nil {
		walkAll(walk, l.allOf...)
		walkAll(walk, l.anyOf...)
		walkAll(walk, l.oneOf...)
		walkAll(walk, l.not, l.cond, l.then, l.otherwise)
	}
	if n.object != nil {
		for _, d := range n.object.dependents {
			walkAll(walk, d.node)
		}
	}
	if x := n.extra; x != nil {
		walkAll(walk, x.plain)
		for _, d := range x.dynamic {
			walkAll(walk, d.fallback)
			walkAll(walk, d.targets...)
		}
	}
}

// children calls walk for each node that examines a member, a member name or an
// element of n's value.
func (n *node) children(walk func(*node)) {
	if o := n.object; o != nil {
		for _, p := range o.properties {
			walkAll(walk, p.node)
		}
		for _, p := range o.patterns {
			walkAll(walk, p.node)
		}
		walkAll(walk, o.additional, o.names)
	}
	if a := n.array; a != nil {
		walkAll(walk, a.prefix...)
		walkAll(walk, a.rest, a.contains)
	}
	if x := n.extra; x != nil {
		walkAll(walk, x.unevaluatedProperties, x.unevaluatedItems)
	}
}
