package toolargs

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

const (
	maxSubschemas = 1 << 14 // of all nodes of a document, which can be recursive; the rest of the schema has no rules
	maxDepth      = 4       // values within values, such as arrays of arrays
)

// document is a schema, in which references are resolved.
type document struct {
	root    json.RawMessage
	noun    string                     // what errors call a property: argument or field
	targets map[string]json.RawMessage // of references
	left    int                        // subschemas that may still be read
}

// node has the rules of a schema for one value. It follows references and combines subschemas, but it is lenient: the
// server validates the arguments, so keywords that are not understood have no effect.
type node struct {
	doc      *document
	all      []json.RawMessage // objects that all apply: the schema itself, the target of its $ref, and its allOf
	branches []node            // of anyOf and oneOf; at least one applies
}

// parseSchema parses a schema. A text that is not JSON is a schema without rules.
func parseSchema(text json.RawMessage, noun string) node {
	d := &document{noun: noun, targets: make(map[string]json.RawMessage), left: maxSubschemas}
	if json.Valid(text) {
		d.root = bytes.TrimSpace(text)
	}
	return d.node(d.root)
}

// node returns the node of a value for which all schemas apply.
func (d *document) node(schemas ...json.RawMessage) node {
	n := node{doc: d}
	for _, s := range schemas {
		n.add(s, nil)
	}
	return n
}

// add adds the rules of a subschema. An object that is one of those around it adds nothing.
func (n *node) add(schema json.RawMessage, around []*byte) {
	if n.doc.left--; n.doc.left < 0 || !isObject(schema) || slices.Contains(around, &schema[0]) {
		return
	}
	n.all = append(n.all, schema)
	around = append(slices.Clone(around), &schema[0])
	if ref, ok := textOf(member(schema, "$ref")); ok {
		n.add(n.doc.lookup(ref), around)
	}
	for _, sub := range list(member(schema, "allOf")) {
		n.add(sub, around)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, sub := range list(member(schema, keyword)) {
			b := node{doc: n.doc}
			b.add(sub, around)
			if b.all != nil || string(sub) == "true" { // a branch that repeats the whole allows no further values
				n.branches = append(n.branches, b)
			}
		}
	}
}

// lookup returns the target of a reference, which is a JSON Pointer in the document, or nil.
func (d *document) lookup(ref string) json.RawMessage {
	target, known := d.targets[ref]
	if known {
		return target // with the same address, by which add recognises it
	}
	if pointer, local := strings.CutPrefix(ref, "#"); local {
		target = d.root
		for i, name := range strings.Split(pointer, "/") {
			name, err := url.PathUnescape(name)
			name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
			switch index, notIndex := strconv.ParseUint(name, 10, 31); {
			case i == 0 && name == "":
			case err != nil || i == 0:
				target = nil
			case isObject(target):
				target = member(target, name)
			case notIndex == nil && index < uint64(len(list(target))):
				target = list(target)[index]
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
	one := node{doc: n.doc, all: n.all}
	if len(n.branches) > 0 {
		at := max(slices.IndexFunc(n.branches, node.notNull), 0)
		one.all = slices.Concat(n.all, n.branches[at].first().all)
	}
	return one
}

func (n node) notNull() bool { return !slices.Equal(n.types(), []string{"null"}) }

// keyword returns the first value of an annotation, or of a keyword whose first value decides; nil if there is none.
func (n node) keyword(name string) json.RawMessage {
	for _, o := range n.all {
		if value := member(o, name); value != nil {
			return value
		}
	}
	for _, b := range n.branches {
		if value := b.keyword(name); value != nil && b.notNull() {
			return value
		}
	}
	return nil
}

func (n node) text(keyword string) string {
	text, _ := textOf(n.keyword(keyword))
	return text
}

// types returns the JSON types that the schema allows, in the order in which the schema names them. It returns none if
// the schema does not restrict the type.
func (n node) types() (types []string) {
	restrict := func(to []string) {
		if types == nil {
			types = distinct(to)
		} else if both := intersection(types, to); both != nil {
			types = both
		}
	}
	for _, o := range n.all {
		if t := member(o, "type"); t != nil {
			restrict(texts(append(list(t), t)))
		}
		if allowed := valuesOf(o); allowed != nil {
			var of []string
			for _, v := range allowed {
				of = append(of, typeOf(v))
			}
			restrict(of)
		}
	}
	var of []string
	for _, b := range n.branches {
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
func (n node) values() (words []string, only bool) {
	restrict := func(to []string) {
		if only {
			to = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !slices.Contains(to, w) })
		}
		words, only = to, true
	}
	for _, o := range n.all {
		if allowed := valuesOf(o); allowed != nil {
			restrict(wordsFor(allowed))
		}
	}
	var listed []string
	complete := len(n.branches) > 0
	for _, b := range n.branches {
		more, all := b.values()
		listed = append(listed, more...)
		complete = complete && (all || !b.notNull())
	}
	if complete {
		restrict(listed)
	} else if !only {
		words = listed
	}
	words = distinct(words)
	if len(words) > 1 {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "null" })
	}
	return words, only
}

// element returns the node of the element of an array at an index.
func (n node) element(i int) node {
	var subs []json.RawMessage
	for _, o := range n.all {
		prefix, items := list(member(o, "prefixItems")), member(o, "items")
		if tuple := list(items); tuple != nil { // before 2020-12
			prefix, items = tuple, member(o, "additionalItems")
		}
		if i < len(prefix) {
			items = prefix[i]
		}
		subs = append(subs, items)
	}
	of := n.doc.node(subs...)
	for _, b := range n.branches {
		if slices.Contains(b.types(), "array") {
			of.branches = append(of.branches, b.element(i))
		}
	}
	return of
}

// property returns the node of the property called name. Defined reports whether the schema names the property, and ok
// whether it allows it.
func (n node) property(name string) (property node, defined, ok bool) {
	var subs, rest []json.RawMessage
	closed, never := false, false
	for _, o := range n.all {
		if sub := member(member(o, "properties"), name); sub != nil {
			subs, defined = append(subs, sub), true
			never = never || isFalse(sub)
			continue
		}
		switch more := member(o, "additionalProperties"); {
		case member(o, "patternProperties") != nil:
			rest = append(rest, json.RawMessage("{}"))
		case isFalse(more) || isFalse(member(o, "unevaluatedProperties")):
			closed = true
		default:
			rest = append(rest, more)
		}
	}
	property = n.doc.node(subs...)
	open := len(n.branches) == 0
	for _, b := range n.branches {
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
	for _, o := range n.all {
		for name := range jsonrpc.All(member(o, "properties")) {
			names = append(names, name)
		}
	}
	for _, b := range n.objects() {
		names = append(names, b.properties()...)
	}
	return distinct(names)
}

// required returns the names of the properties that every object must have.
func (n node) required() (names []string) {
	for _, o := range n.all {
		names = append(names, texts(list(member(o, "required")))...)
	}
	var common []string
	for i, b := range n.objects() {
		if of := b.required(); i == 0 {
			common = of
		} else {
			common = slices.DeleteFunc(common, func(name string) bool { return !slices.Contains(of, name) })
		}
	}
	return distinct(append(names, common...))
}

// objects returns the branches that allow objects.
func (n node) objects() []node {
	return slices.DeleteFunc(slices.Clone(n.branches), func(b node) bool {
		types := b.types()
		return types != nil && !slices.Contains(types, "object")
	})
}

// member returns a member of an object, or nil.
func member(o json.RawMessage, name string) json.RawMessage {
	if !isObject(o) {
		return nil
	}
	value, _ := jsonrpc.Get(o, name)
	return value
}

func isObject(v json.RawMessage) bool { return len(v) > 0 && v[0] == '{' }

func isFalse(v json.RawMessage) bool { return string(v) == "false" }

// list returns the elements of an array, or nil.
func list(v json.RawMessage) (elements []json.RawMessage) {
	if len(v) > 0 && v[0] == '[' {
		_ = schema.Decode(v, &elements) // it is valid JSON
	}
	return elements
}

func textOf(v json.RawMessage) (text string, ok bool) {
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return jsonrpc.Unquote(v), true
}

// texts returns the strings among values.
func texts(values []json.RawMessage) (all []string) {
	for _, v := range values {
		if text, ok := textOf(v); ok {
			all = append(all, text)
		}
	}
	return all
}

// valuesOf returns the values that an enum or a const allows, or nil if there are neither.
func valuesOf(o json.RawMessage) []json.RawMessage {
	if value := member(o, "const"); value != nil {
		return []json.RawMessage{value}
	}
	return list(member(o, "enum"))
}

// distinct returns words without repetitions.
func distinct(words []string) (all []string) {
	seen := make(map[string]bool)
	for _, w := range words {
		if !seen[w] {
			all = append(all, w)
		}
		seen[w] = true
	}
	return all
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
