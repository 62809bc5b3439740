package toolargs

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	maxDepth     = 4       // values within values, such as arrays of arrays
	maxReference = 8 << 10 // bytes of a reference
)

// document is a schema, in which references are resolved.
type document struct {
	*budget
	root    *value
	noun    string            // what errors call a property: argument or field
	targets map[string]*value // of references
}

// node contains the rules of a schema for one value. It follows references and combines subschemas, but it is lenient:
// the server validates the arguments, so keywords that are not understood have no effect.
type node struct {
	doc *document
	// all are objects that all apply: the schema itself, the target of its $ref, and its allOf. Loop over subschemas()
	// instead.
	all []*value
	// branches come from anyOf and oneOf; at least one applies. Loop over alternatives() instead.
	branches []node
}

// subschemas yields the objects that all apply.
func (n node) subschemas() iter.Seq[*value] { return spending(n.doc, n.all) }

// alternatives yields the branches.
func (n node) alternatives() iter.Seq[node] { return spending(n.doc, n.branches) }

// spending yields the elements of a list as long as the budget lasts.
func spending[E any](doc *document, list []E) iter.Seq[E] {
	return func(yield func(E) bool) {
		for _, e := range list {
			if !doc.spend(1) || !yield(e) {
				return
			}
		}
	}
}

// parseSchema parses a schema. A text that is not JSON is a schema without rules.
func parseSchema(text json.RawMessage, noun string) node {
	d := &document{budget: &budget{maxWork}, noun: noun, targets: make(map[string]*value)}
	if json.Valid(text) {
		d.root = &value{budget: d.budget, raw: bytes.TrimSpace(text)}
	}
	return d.node(d.root)
}

// node returns the node of a value for which all schemas apply.
func (d *document) node(schemas ...*value) node {
	n := node{doc: d}
	for _, s := range schemas {
		n.add(s, nil)
	}
	return n
}

// add adds the rules of a subschema. An object that is one of those around it adds nothing.
func (n *node) add(schema *value, around []*value) {
	// A step for each object around it, and for its keywords.
	if !n.doc.spend(8+len(around)) || !schema.isObject() || slices.Contains(around, schema) {
		return
	}
	n.all = append(n.all, schema)
	around = append(slices.Clone(around), schema)
	if ref, ok := schema.member("$ref").text(); ok {
		n.add(n.doc.lookup(ref), around)
	}
	for _, sub := range schema.member("allOf").list() {
		n.add(sub, around)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, sub := range schema.member(keyword).list() {
			b := node{doc: n.doc}
			b.add(sub, around)
			if b.all != nil || sub.isTrue() { // a branch that repeats the whole allows no further values
				n.branches = append(n.branches, b)
			}
		}
	}
}

// lookup returns the target of a reference, which is a JSON Pointer in the document, or nil.
func (d *document) lookup(ref string) *value {
	target, known := d.targets[ref]
	if known {
		return target
	}
	if pointer, local := strings.CutPrefix(ref, "#"); local && len(ref) <= maxReference && d.spend(len(ref)) {
		target = d.root
		for i, name := range strings.Split(pointer, "/") {
			name, err := url.PathUnescape(name)
			name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
			switch index, notIndex := strconv.ParseUint(name, 10, 31); {
			case i == 0 && name == "":
			case err != nil || i == 0:
				target = nil
			case target.isObject():
				target = target.member(name)
			case notIndex == nil:
				target = target.element(int(index))
			default:
				target = nil
			}
		}
	}
	d.targets[ref] = target
	return target
}

// first returns the node without branches: with the first one that allows more than null.
func (n node) first() node {
	if len(n.branches) == 0 {
		return node{doc: n.doc, all: n.all}
	}
	chosen := n.branches[0]
	for b := range n.alternatives() {
		if b.notNull() {
			chosen = b
			break
		}
	}
	return node{doc: n.doc, all: slices.Concat(n.all, chosen.first().all)}
}

func (n node) notNull() bool { return !slices.Equal(n.types(), []string{"null"}) }

// keyword returns the first value of an annotation, or of a keyword whose first value decides; nil if there is none.
func (n node) keyword(name string) json.RawMessage {
	for o := range n.subschemas() {
		if v := o.member(name); v != nil {
			return v.raw
		}
	}
	for b := range n.alternatives() {
		if raw := b.keyword(name); raw != nil && b.notNull() {
			return raw
		}
	}
	return nil
}

func (n node) text(keyword string) string {
	text, _ := textOf(n.keyword(keyword))
	return text
}

// maxTypes bounds the types of one value. JSON has seven.
const maxTypes = 16

// types returns the JSON types that the schema allows, in the order in which the schema names them. It returns none if
// the schema does not restrict the type.
func (n node) types() (types []string) {
	restrict := func(to []string) {
		to = distinct(to)
		if to = to[:min(len(to), maxTypes)]; types == nil {
			types = to
		} else if both := intersection(types, to); both != nil {
			types = both
		}
	}
	for o := range n.subschemas() {
		if t := o.member("type"); t != nil {
			names := t.texts()
			if name, ok := t.text(); ok {
				names = append(names, name)
			}
			restrict(names)
		}
		if allowed, ok := valuesOf(o); ok {
			var of []string
			for v := range allowed {
				of = append(of, typeOf(v.raw))
			}
			restrict(of)
		}
	}
	var of []string
	for b := range n.alternatives() {
		t := b.types()
		if t == nil {
			return types
		}
		of = append(of, t...)
	}
	if of != nil {
		restrict(of)
	}
	return types
}

// intersection returns the types of a that b allows, too. Each integer is a number.
func intersection(a, b []string) (both []string) {
	for _, t := range a {
		switch {
		case slices.Contains(b, t), t == "integer" && slices.Contains(b, "number"):
			both = append(both, t)
		case t == "number" && slices.Contains(b, "integer"):
			both = append(both, "integer")
		}
	}
	return both
}

// values returns the values that the schema lists, without null if there are others, as words. Only reports whether no
// others are allowed.
func (n node) values() (list []string, only bool) {
	restrict := func(to []string) {
		if only {
			to = setOf(to).only(list)
		}
		list, only = to, true
	}
	for o := range n.subschemas() {
		if allowed, ok := valuesOf(o); ok {
			var to []string
			for v := range allowed {
				to = append(to, wordFor(v.raw))
			}
			restrict(to)
		}
	}
	var listed []string
	complete := len(n.branches) > 0
	for b := range n.alternatives() {
		more, all := b.values()
		listed = append(listed, more...)
		complete = complete && (all || !b.notNull())
	}
	if complete {
		restrict(listed)
	} else if !only {
		list = listed
	}
	list = distinct(list)
	if len(list) > 1 {
		list = slices.DeleteFunc(list, func(w string) bool { return w == "null" })
	}
	return list, only
}

// element returns the node of the element of an array at an index.
func (n node) element(i int) node {
	var subs []*value
	for o := range n.subschemas() {
		prefix, items := o.member("prefixItems"), o.member("items")
		if items.isArray() { // before 2020-12
			prefix, items = items, o.member("additionalItems")
		}
		if own := prefix.element(i); own != nil {
			items = own
		}
		subs = append(subs, items)
	}
	of := n.doc.node(subs...)
	for b := range n.alternatives() {
		if slices.Contains(b.types(), "array") {
			of.branches = append(of.branches, b.element(i))
		}
	}
	return of
}

// property returns the node of the property called name. Defined reports whether the schema names the property, and ok
// whether it allows it.
func (n node) property(name string) (property node, defined, ok bool) {
	var subs, rest []*value
	closed, never := false, false
	for o := range n.subschemas() {
		if sub := o.member("properties").member(name); sub != nil {
			subs, defined = append(subs, sub), true
			never = never || sub.isFalse()
			continue
		}
		switch more := o.member("additionalProperties"); {
		case o.member("patternProperties") != nil:
			rest = append(rest, &value{budget: n.doc.budget, raw: json.RawMessage("{}")})
		case more.isFalse() || o.member("unevaluatedProperties").isFalse():
			closed = true
		default:
			rest = append(rest, more)
		}
	}
	property = n.doc.node(subs...)
	open := len(n.branches) == 0
	for b := range n.alternatives() {
		of, defines, allows := b.property(name)
		open = open || allows
		if defines && allows { // a branch that does not name the property says nothing about its value
			property.branches, defined = append(property.branches, of), true
		}
	}
	if defined {
		return property, true, !never
	}
	return n.doc.node(rest...), false, open && !closed
}

// properties returns the names of the properties in the order of the schema.
func (n node) properties() (names []string) {
	for o := range n.subschemas() {
		names = slices.AppendSeq(names, o.member("properties").members())
	}
	for b := range n.objects() {
		names = append(names, b.properties()...)
	}
	return distinct(names)
}

// required returns the names of the properties that every object must have.
func (n node) required() (names []string) {
	for o := range n.subschemas() {
		names = append(names, o.member("required").texts()...)
	}
	var common []string
	first := true
	for b := range n.objects() {
		if of := b.required(); first {
			common, first = of, false
		} else {
			common = setOf(of).only(common)
		}
	}
	return distinct(append(names, common...))
}

// objects yields the branches that allow objects.
func (n node) objects() iter.Seq[node] {
	return func(yield func(node) bool) {
		for b := range n.alternatives() {
			types := b.types()
			if (types == nil || slices.Contains(types, "object")) && !yield(b) {
				return
			}
		}
	}
}

// valuesOf returns the values that an enum or a const allows, and whether there is one.
func valuesOf(o *value) (iter.Seq[*value], bool) {
	if v := o.member("const"); v != nil {
		return slices.Values([]*value{v}), true
	}
	list := o.member("enum")
	return func(yield func(*value) bool) {
		for _, v := range list.list() {
			if !yield(v) {
				return
			}
		}
	}, list.isArray()
}

func typeOf(v json.RawMessage) string {
	switch v[0] {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && f == math.Trunc(f) {
		return "integer"
	}
	return "number"
}
