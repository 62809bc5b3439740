package schema

import (
	"strconv"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// kind is the kind of a JSON value, or a set of kinds such as a schema's "type".
type kind = jsonscan.Kind

const (
	kindNull    = jsonscan.KindNull
	kindBoolean = jsonscan.KindBoolean
	kindNumber  = jsonscan.KindNumber
	kindString  = jsonscan.KindString
	kindArray   = jsonscan.KindArray
	kindObject  = jsonscan.KindObject
	kindInteger = jsonscan.KindInteger
)

type token = jsonscan.Token

// Bounds of any document, schema or instance. The bounds of depth and values
// equal the bounds of messages.
const (
	maxDepth  = 128
	maxTokens = 1_000_000
	maxBytes  = 1 << 30
	// maxExponentDigits keeps sums of exponents from overflowing.
	maxExponentDigits = 17
)

// document is strict JSON, scanned once into tokens, so that several subschemas
// can examine one value without reading its bytes again.
type document struct{ jsonscan.Document }

// scan replaces the contents of the document with raw, and retains raw. The
// error is a [*ValidationError] or matches [ErrLimit].
func (d *document) scan(raw []byte) error {
	d.Reset()
	d.Raw = raw
	if len(d.Raw) > maxBytes {
		return tooMany("bytes of JSON", maxBytes)
	}
	s := jsonscan.Scanner{
		MaxDepth: maxDepth, MaxMembers: maxTokens, MaxTokens: maxTokens, MaxExponent: maxExponentDigits,
	}
	if !d.Scan(&s, 0) {
		return d.scanError(s.Err())
	}
	return nil
}

// scanError turns an error of the scanner into a [*ValidationError] or an error that matches [ErrLimit].
func (d *document) scanError(err *jsonscan.Error) error {
	expected, got := "valid JSON", err.Fault.String()
	switch err.Fault {
	case jsonscan.TooDeep:
		return tooMany("levels of nesting", maxDepth)
	case jsonscan.TooManyTokens, jsonscan.TooManyMembers:
		return tooMany("values in one document", maxTokens)
	case jsonscan.TooLargeExponent:
		return tooMany("digits of an exponent", maxExponentDigits)
	case jsonscan.DuplicateName:
		name := uint32(len(d.Tokens)) - 1
		return invalid(d.openPath(), "each property once", "the property "+quote(d.Text(name))+" twice")
	case jsonscan.UnexpectedEnd, jsonscan.UnterminatedString:
		got = "end of input"
	case jsonscan.TrailingData:
		got = "bytes after the value"
	case jsonscan.InvalidUTF8:
		expected, got = "valid UTF-8", "an invalid byte"
	case jsonscan.UnexpectedCharacter, jsonscan.ExpectedName, jsonscan.ExpectedColon, jsonscan.ExpectedMemberEnd,
		jsonscan.ExpectedElementEnd:
		if err.Offset < len(d.Raw) {
			r, _ := utf8.DecodeRune(d.Raw[err.Offset:])
			got = "unexpected " + strconv.QuoteRune(r)
		}
	}
	return invalid(d.openPath(), expected, got+" at byte "+strconv.Itoa(err.Offset))
}

// openPath returns the JSON Pointer of the value at which a scan has failed.
func (d *document) openPath() string {
	var open []uint32 // the containers that have not ended
	for at := range d.Tokens {
		if t := &d.Tokens[at]; t.End == 0 && t.Kind&(kindArray|kindObject) != 0 {
			open = append(open, uint32(at))
		}
	}
	var path []byte
	for depth, at := range open {
		if t := &d.Tokens[at]; t.Kind == kindArray {
			path = strconv.AppendUint(append(path, '/'), uint64(t.Count), 10)
			continue
		}
		// The last key is being scanned. Its value is the next open container,
		// or is incomplete.
		within := uint32(len(d.Tokens))
		if depth+1 < len(open) {
			within = open[depth+1]
		}
		name := at + 1
		for name+1 < within && d.Tokens[name+1].Next < within {
			name = d.Tokens[name+1].Next
		}
		if name < within {
			path = appendPointer(path, d.excerpt(name, maxPointer+1))
		}
	}
	return cutPointer(path)
}

// excerpt returns the beginning of the text of a string token: at most n bytes of
// whole characters.
func (d *document) excerpt(at uint32, n int) string {
	t := &d.Tokens[at]
	s := d.Raw[t.Start:t.End]
	if t.Plain {
		return truncate(jsonscan.View(s), n)
	}
	// An escape takes at most six bytes for each byte of its text. The text of an
	// escape that is cut comes after the first n bytes.
	const longest = len(`\ud83d\ude00`)
	s = s[:min(len(s), 6*n+longest)]
	return truncate(jsonscan.View(jsonscan.AppendUnescaped(nil, s)), n)
}

// member returns the token of the value of a key in the object at.
func (d *document) member(at uint32, name string) (value uint32, ok bool) {
	end := d.Tokens[at].Next
	for i := at + 1; i < end; i = d.Tokens[i+1].Next {
		if d.named(i, name) {
			return i + 1, true
		}
	}
	return 0, false
}

// named reports whether the string token spells name.
func (d *document) named(at uint32, name string) bool {
	t := &d.Tokens[at]
	if t.Plain {
		return string(d.Raw[t.Start:t.End]) == name
	}
	return d.Text(at) == name
}

// isTrue reports whether a boolean token is true.
func (d *document) isTrue(at uint32) bool { return d.Raw[d.Tokens[at].Start] == 't' }

// A program is a compiled schema: a graph of nodes, one per subschema, each of
// which contains only what it has to check. Groups of keywords that are absent
// are nil pointers, so that a node costs no more than its schema requires.
//
// Invariant: the edges to nodes that examine the same value (ref, allOf, anyOf,
// oneOf, not, if, then, else, dependentSchemas and the parts of extra) form no
// cycle; see checkCycles.

// node is one subschema.
type node struct {
	always, never bool // the schema true (or {}), and the schema false
	types         kind // 0 allows any
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
	name     string // name of the dynamic anchor; "" for $recursiveAnchor
	fallback *node  // used if no resource in the dynamic scope has the anchor
	// targets refers to all nodes with the anchor. All references share this node, because each of many references
	// can lead to each of many anchors.
	targets *node
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
	// properties contains the names in the schema: first those in "properties", in
	// order, then names that are only required.
	properties []property
	index      map[string]int // index by name; nil if a linear search is faster
	required   int            // number of required properties

	patterns   []patternProperty // patterns that can be checked
	anyName    bool              // another pattern cannot be checked and may match every name
	additional *node             // nil allows anything
	names      *node             // the schema in propertyNames

	minimum, maximum int
	dependents       []dependent
}

type property struct {
	name     string
	node     *node // nil if the name is only required
	required bool
}

// patternProperty is an entry of "patternProperties".
type patternProperty struct {
	pattern *pattern
	node    *node
}

// dependent is what the presence of a property requires.
type dependent struct {
	name     string
	requires []string
	node     *node // nil unless a schema is required
}

// fewProperties is the number of properties up to which a linear search that
// begins after the last hit is faster than a map.
const fewProperties = 8

// find returns the index of the property called name, or -1. Properties mostly
// come in the order of the schema, so the search begins at hint.
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
	rest             *node // nil allows anything
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
			walkAll(walk, d.fallback, d.targets)
		}
	}
}

// children calls walk for each node that examines a property, a property name
// or an element of n's value.
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
