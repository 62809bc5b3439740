package toolargs

import (
	"encoding/json"
	"math"
	"slices"
)

// node has the rules of a schema for one value. It follows references and combines subschemas as a validator does, but
// it is lenient: the server validates the arguments, so keywords that are not understood have no effect.
type node struct {
	doc    *document
	all    []*object // rules that all apply: the schema itself, the target of its $ref, and its allOf
	unions [][]node  // the branches of each anyOf, oneOf, if and dependentSchemas; at least one branch applies
	never  bool      // no value is valid

	circular bool // the schema is a branch of a schema that it contains
}

const (
	maxSubschemas = 256     // subschemas of one node, which can be recursive
	maxWork       = 1 << 20 // subschemas of all nodes, and patterns matched; the rest of the schema has no rules
	maxDepth      = 4       // values within values, such as arrays of arrays
)

func parseSchema(text json.RawMessage) node {
	doc := parseDocument(text)
	return doc.node(doc.root)
}

// node returns the node of a value for which all schemas apply.
func (d *document) node(schemas ...any) node {
	n, left := node{doc: d}, maxSubschemas
	for _, s := range schemas {
		n.add(s, nil, &left)
	}
	return n
}

// add adds the rules of a subschema. A branch of one of the objects around it must not contain that object again.
func (n *node) add(schema any, around []*object, left *int) {
	n.never = n.never || schema == false
	o, _ := schema.(*object)
	if *left--; o == nil || *left < 0 || !n.doc.work() || slices.Contains(n.all, o) {
		return
	}
	if slices.Contains(around, o) {
		n.circular = true
		return
	}
	n.all = append(n.all, o)
	for _, keyword := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := o.members[keyword].(string); ok {
			n.add(n.doc.lookup(o.base, ref), around, left)
		}
	}
	for _, sub := range list(o.members["allOf"]) {
		n.add(sub, around, left)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if subs := list(o.members[keyword]); len(subs) > 0 {
			n.union(around, left, subs...)
		}
	}
	if _, ok := o.members["if"]; ok {
		n.union(around, left, o.members["then"], o.members["else"])
	}
	if dependent, ok := o.members["dependentSchemas"].(*object); ok {
		for _, name := range dependent.names {
			n.union(around, left, dependent.members[name], nil)
		}
	}
}

// union adds the rule that one of the subschemas applies.
func (n *node) union(around []*object, left *int, subs ...any) {
	around = slices.Concat(around, n.all)
	var branches []node
	circular := false
	for _, sub := range subs {
		b := node{doc: n.doc}
		b.add(sub, around, left)
		circular = circular || b.circular
		if !b.never && !b.circular { // a branch that repeats the whole allows no further values
			branches = append(branches, b)
		}
	}
	if branches != nil || !circular {
		n.unions = append(n.unions, branches)
		n.never = n.never || branches == nil
	}
}

// first returns the node without unions: with the first branch of each that allows more than null.
func (n node) first() node {
	one := node{doc: n.doc, all: slices.Clone(n.all)}
	for _, branches := range n.unions {
		if i := max(slices.IndexFunc(branches, node.notNull), 0); i < len(branches) {
			one.all = append(one.all, branches[i].first().all...)
		}
	}
	return one
}

func (n node) notNull() bool { return !slices.Equal(n.types(), []string{"null"}) }

// keyword returns the first value of an annotation, or of a keyword whose first value decides. A union has the keyword
// if all but one of its branches are null.
func (n node) keyword(name string) (value any, ok bool) {
	for _, o := range n.all {
		if value, ok = o.members[name]; ok {
			return value, true
		}
	}
	for _, branches := range n.unions {
		branches = slices.DeleteFunc(slices.Clone(branches), func(b node) bool { return !b.notNull() })
		if len(branches) != 1 {
			continue
		}
		if value, ok = branches[0].keyword(name); ok {
			return value, true
		}
	}
	return nil, false
}

func (n node) text(keyword string) string {
	value, _ := n.keyword(keyword)
	text, _ := value.(string)
	return text
}

// types returns the JSON types that the schema allows, in the order in which the schema names them. It returns none if
// the schema does not restrict the type.
func (n node) types() (types []string) {
	if !n.doc.work() {
		return nil
	}
	restrict := func(to []string) {
		if types == nil {
			types = to
		} else if both := intersection(types, to); both != nil {
			types = both
		}
	}
	for _, o := range n.all {
		switch t := o.members["type"].(type) {
		case string:
			restrict([]string{t})
		case []any:
			restrict(texts(t))
		}
		if allowed := o.values(); allowed != nil {
			var of []string
			for _, v := range allowed {
				of = append(of, typeOf(v))
			}
			restrict(distinct(of))
		}
	}
	for _, branches := range n.unions {
		var of []string
		for _, b := range branches {
			t := b.types()
			if t == nil {
				of = nil
				break
			}
			of = append(of, t...)
		}
		if of != nil {
			restrict(distinct(of))
		}
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

// values returns the values that the schema lists, without null if there are others. Only reports whether no others are
// allowed.
func (n node) values() (values []any, only bool) {
	restrict := func(to []any) {
		if only {
			allowed := setOf(wordsFor(to))
			to = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !allowed[wordFor(v)] })
		}
		values, only = to, true
	}
	for _, o := range n.all {
		if allowed := o.values(); allowed != nil {
			restrict(allowed)
		}
	}
	for _, branches := range n.unions {
		var listed []any
		all := len(branches) > 0
		for _, b := range branches {
			more, complete := b.values()
			listed = append(listed, more...)
			all = all && (complete || !b.notNull())
		}
		if all {
			restrict(listed)
		} else if !only {
			values = append(values, listed...)
		}
	}
	seen := make(map[string]bool)
	return slices.DeleteFunc(slices.Clone(values), func(v any) bool {
		text := wordFor(v)
		repeated := seen[text]
		seen[text] = true
		return repeated || v == nil && len(values) > 1
	}), only
}

// element returns the node of the element of an array at an index.
func (n node) element(i int) node {
	var subs []any
	for _, o := range n.all {
		prefix, items := list(o.members["prefixItems"]), o.members["items"]
		if tuple := list(items); tuple != nil { // before 2020-12
			prefix, items = tuple, o.members["additionalItems"]
		}
		if i < len(prefix) {
			items = prefix[i]
		}
		subs = append(subs, items)
	}
	of := n.doc.node(subs...)
	for _, branches := range n.unions {
		var elements []node
		for _, b := range branches {
			if slices.Contains(b.types(), "array") {
				elements = append(elements, b.element(i))
			}
		}
		if elements != nil {
			of.unions = append(of.unions, elements)
		}
	}
	return of
}

// property returns the node of the property called name. ok is false if the schema does not allow a property of that
// name.
func (n node) property(name string) (property node, ok bool) {
	property, _ = n.propertyOf(name)
	return property, !property.never
}

// propertyOf is property. defined reports whether the schema defines the property by its name.
func (n node) propertyOf(name string) (property node, defined bool) {
	if !n.doc.work() {
		return node{doc: n.doc}, false
	}
	var subs, rest []any
	for _, o := range n.all {
		sub, ok := o.member("properties").members[name]
		defined = defined || ok
		matched := []any{sub}
		patterns := o.member("patternProperties")
		for _, pattern := range patterns.names {
			if n.doc.work() && n.doc.matches(pattern, name) {
				matched, ok = append(matched, patterns.members[pattern]), true
			}
		}
		if !ok {
			matched = append(matched, o.members["additionalProperties"])
		}
		subs = append(subs, matched...)
		rest = append(rest, o.members["unevaluatedProperties"])
	}
	var unions [][]node
	for _, branches := range n.unions {
		var defining, others []node
		for _, b := range branches {
			switch p, definesIt := b.propertyOf(name); {
			case p.never:
			case definesIt:
				defining = append(defining, p)
			default:
				others = append(others, p)
			}
		}
		if defining != nil {
			others, defined = defining, true // a branch that does not know the name says nothing about its value
		}
		unions = append(unions, others)
	}
	if !defined {
		subs = append(subs, rest...)
	}
	property = n.doc.node(subs...)
	for _, branches := range unions {
		property.unions = append(property.unions, branches)
		property.never = property.never || len(branches) == 0
	}
	return property, defined
}

// properties returns the names of the properties in the order of the schema.
func (n node) properties() (names []string) {
	for _, o := range n.all {
		names = append(names, o.member("properties").names...)
	}
	for _, branches := range n.unions {
		for _, b := range objects(branches) {
			names = append(names, b.properties()...)
		}
	}
	return distinct(names)
}

// required returns the names of the properties that every object must have.
func (n node) required() (names []string) {
	for _, o := range n.all {
		names = append(names, texts(list(o.members["required"]))...)
	}
	for _, branches := range n.unions {
		var common []string
		for i, b := range objects(branches) {
			if of := b.required(); i == 0 {
				common = of
			} else {
				both := setOf(of)
				common = slices.DeleteFunc(common, func(name string) bool { return !both[name] })
			}
		}
		names = append(names, common...)
	}
	return distinct(names)
}

// objects returns the branches that allow objects.
func objects(branches []node) []node {
	return slices.DeleteFunc(slices.Clone(branches), func(b node) bool {
		types := b.types()
		return types != nil && !slices.Contains(types, "object")
	})
}

// fitting returns the node without the branches that do not fit the words: they do not allow a key or the value of a
// key, or they require another key.
func (n node) fitting(given map[string][]word) node {
	keep := func(branches []node, rule func(b node) bool) []node {
		if kept := slices.DeleteFunc(slices.Clone(branches), func(b node) bool { return !rule(b) }); len(kept) > 0 {
			return kept
		}
		return branches
	}
	fits := n
	fits.unions = nil
	for _, branches := range n.unions {
		branches = keep(objects(branches), func(b node) bool {
			for key, words := range given {
				p, ok := b.property(key)
				values, only := p.values()
				if !ok || only && len(words) == 1 && !words[0].json &&
					!slices.Contains(wordsFor(values), words[0].text) {
					return false
				}
			}
			return true
		})
		branches = keep(branches, func(b node) bool {
			return !slices.ContainsFunc(b.required(), func(name string) bool { return given[name] == nil })
		})
		fits.unions = append(fits.unions, branches)
	}
	return fits
}

func texts(values []any) (all []string) {
	for _, v := range values {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
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

func setOf(words []string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}
